"""Comparisons of two runs by hand."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import small

from elgo.bench.compare import compare, signed_rank


def folder(path: Path, costs: dict[str, list[float | None]]) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(asdict(small.config(list(costs)))))
    records = [small.record(method, f"i{k}", cost) for method, found in costs.items() for k, cost in enumerate(found)]
    (path / "results.jsonl").write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))
    return str(path)


def test_costs_of_different_rounding_are_not_compared(tmp_path: Path) -> None:
    for name, metric in (("a", "EUC_2D"), ("b", "EXACT_2D")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(asdict(small.config(["x"]))))
        line = json.dumps(asdict(small.record("x", "i", 100.0, metric=metric)))
        (tmp_path / name / "results.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match="costs of i are EUC_2D and EXACT_2D, rounded differently"):
        compare(str(tmp_path / "a"), str(tmp_path / "b"))


def test_regressions_are_flagged(tmp_path: Path) -> None:
    usual: list[float | None] = [100.0 + k for k in range(10)]
    worse: list[float | None] = [cost and cost * (1.01 + k / 1000) for k, cost in enumerate(usual)]
    barely: list[float | None] = [cost and cost * 1.00005 for cost in usual]
    a = folder(tmp_path / "a", {"same": usual, "worse": usual, "better": worse, "barely": usual, "failing": usual})
    b = folder(
        tmp_path / "b",
        {"same": usual, "worse": worse, "better": usual, "barely": barely, "failing": [None, *usual[1:]], "new": usual},
    )
    rows = {row[0]: row for row in compare(a, b).rows}
    assert {name: row[-1] for name, row in rows.items()} == {
        "same": "same",
        "worse": "WORSE",
        "better": "better",
        "barely": "same",
        "failing": "WORSE: 1 failed",
    }
    assert rows["worse"][4:8] == ("+1.450", "0", "10", "0.00195")  # difference, better, worse, p: all ten of one sign
    assert rows["same"][1:8] == ("10", "104.5", "104.5", "+0.000", "0", "0", "1")


def test_two_methods_of_one_run(tmp_path: Path) -> None:
    a = folder(tmp_path / "a", {"elg:single": [103.0, 102.0], "elg": [101.0, None]})
    (row,) = compare(f"{a}:elg:single", f"{a}:elg").rows
    assert row[:4] == ("elg:single / elg", "1", "103", "101")
    assert row[-1] == "WORSE: 1 failed"


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    a = folder(tmp_path / "a", {"x": [1.0], "z": [None]})
    b = folder(tmp_path / "b", {"y": [1.0]})
    with pytest.raises(ValueError, match=r"b: has no method in common with .*a \(x, z\)"):
        compare(a, b)
    with pytest.raises(ValueError, match=r"a: has no method 'w'; there are x, z"):
        compare(f"{a}:w", f"{b}:y")
    with pytest.raises(ValueError, match="name a method on both sides"):
        compare(f"{a}:x", b)
    with pytest.raises(ValueError, match="methods 'z' and 'y' have no solved instance in common"):
        compare(f"{a}:z", f"{b}:y")
    with pytest.raises(ValueError, match="is not the folder of a benchmark"):
        compare(a, str(tmp_path / "nowhere"))


def test_signed_rank() -> None:
    assert signed_rank(np.zeros(2)) == 1.0
    assert signed_rank(np.array([1.0, -1.0])) == pytest.approx(1.0)
