"""The paper's tables from small sets: rows, columns, what is left out, and that nothing is measured twice."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import small

from elgo.bench import paper_tables
from elgo.bench.methods import Options
from elgo.bench.paper import RUNS, Run, Study
from elgo.bench.paper_tables import LAYOUTS, Results, paper_table, parse_tables, protocol
from elgo.bench.published import facts, published
from elgo.bench.sets import Selection
from elgo.bench.tables import Table
from elgo.model.checkpoint import SHIPPED
from elgo.problem.files import write_instance


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Two small sets, and starts enough for them."""
    small.tsplib(tmp_path / "data" / "tsplib", ["eil51", "berlin52"], best=2000.0)
    for stem, size in (("X-n101-k25", 12), ("X-n502-k39", 501)):
        file = tmp_path / "data" / "X" / f"{stem}.vrp"
        file.parent.mkdir(exist_ok=True)
        write_instance(file, replace(small.instance("cvrp", size, name=stem), best_known=100.0))
    for stem in ("Antwerp1", "Leuven2"):
        file = tmp_path / "data" / "XXL" / f"{stem}.vrp"
        file.parent.mkdir(exist_ok=True)
        write_instance(file, replace(small.instance("cvrp", 12, name=stem), best_known=100.0))
    for name in ("tsplib", "cvrplib-x", "cvrplib-xxl"):
        monkeypatch.setitem(RUNS, name, replace(RUNS[name], starts=2))
    (tmp_path / "out").mkdir()
    return Study(tmp_path / "out", tmp_path / "data", Options(), ablations=tmp_path / "weights")


def cells(table: Table, label: str) -> dict[str, str]:
    return next(dict(zip(table.header, row, strict=True)) for row in table.rows if row[0] == label)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package's models in a folder of their own, where others can be added."""
    folder = tmp_path / "models"
    shutil.copytree(SHIPPED, folder)
    for module in ("elgo.model.checkpoint", "elgo.bench.paper", "elgo.bench.paper_tables"):
        monkeypatch.setattr(f"{module}.SHIPPED", folder)
    return folder


def test_numbers() -> None:
    assert parse_tables("all") == list(range(1, 13))
    assert parse_tables("2, 7-9,2") == [2, 7, 8, 9]
    for wrong in ("0", "13", "x", "3-1", ""):
        with pytest.raises(ValueError, match="--table has"):
            parse_tables(wrong)
    assert set(LAYOUTS) == set(range(1, 13)) - {6}


def test_a_benchmark_of_files(study: Study) -> None:
    table = paper_table(2, study)
    assert table.title == "Table 2. TSPLIB: mean gap %"
    assert table.header[:4] == ("", "trained on", "starts x symmetries", "<=200")
    assert [row[0] for row in table.rows[:4]] == [
        "ELG",
        "ELG, one rollout",
        "fast_tsp in ELG's time",
        "LKH3 (published)",
    ]
    elg = cells(table, "ELG")
    assert elg["trained on"] == "mixed distributions, N = 50 to 500"
    assert elg["starts x symmetries"] == "2 x 8"
    assert elg["<=200"] == elg["all"]
    assert float(elg["all"]) > float(cells(table, "fast_tsp in ELG's time")["all"])
    assert elg["200-1002"] == "-"
    found = Results(study.folder / "tsplib")
    gaps = [record.gap for record in found.records if record.method == "elg:2x8"]
    assert elg["all"] == f"{sum(gaps) / 2:.2f}"  # type: ignore[arg-type]
    assert cells(table, "Omni-POMO (published)")["trained on"].startswith("uniform and Gaussian mixtures")
    notes = "\n".join(table.notes)
    assert "no weights: POMO (TSP)" in notes
    assert "tsp225" in notes
    assert (study.folder / "table-2.md").read_text() == f"{table.markdown()}\n"


def test_a_table_that_was_interrupted_goes_on(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = paper_table(2, study)
    file = study.folder / "tsplib" / "results.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    again = paper_table(2, study)
    assert len(file.read_text().splitlines()) == len(lines)
    assert [row[:4] for row in again.rows] == [row[:4] for row in whole.rows]
    monkeypatch.setattr("elgo.bench.command.run_method", lambda *args: pytest.fail("nothing is left to do"))
    assert paper_table(2, study) == again


def test_tables_share_what_is_measured(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = paper_table(1, study)
    assert [row[0] for row in first.rows[:4]] == ["ELG", "ELG, one rollout", "savings", "search (elgo) in ELG's time"]
    paper_table(3, study)
    monkeypatch.setattr("elgo.bench.command.run_method", lambda *args: pytest.fail("nothing is left to do"))
    tam = paper_table(10, study)
    record = next(x for x in Results(study.folder / "cvrplib-x").records if x.method == "elg:2x8" and x.nodes == 500)
    assert cells(tam, "ELG")["Set-X, N >= 500"] == f"{record.gap:.2f}"
    assert cells(tam, "TAM-LKH3 (published)")["seconds Set-X"] == "2.45"


def test_pomo_is_a_row_when_its_weights_come(study: Study, shipped: Path, weights: Callable[[str], Path]) -> None:
    before = paper_table(2, study)
    shutil.copy(weights("tsp"), shipped / "pomo-tsp.safetensors")
    shutil.copy(shipped / "elg-tsp.toml", shipped / "pomo-tsp.toml")
    after = paper_table(2, study)
    assert cells(after, "ELG") == cells(before, "ELG")  # not measured again
    assert cells(after, "POMO")["starts x symmetries"] == "2 x 8"
    assert "POMO" in after.rows[2][0]
    assert not any("left out" in note for note in after.notes)
    assert any(note.startswith("tsplib: POMO's cost +") and "p = " in note for note in after.notes)


def test_parts_of_uniform_sets(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    for problem in ("tsp", "cvrp"):
        run = Run("uniform", problem, Selection(problem, limit=2), starts=2)  # type: ignore[arg-type]
        monkeypatch.setitem(RUNS, f"uniform-{problem}", replace(run, only_elg=True))
        monkeypatch.setitem(RUNS, f"uniform-{problem}-part", run)
    table = paper_table(5, study)
    elg = cells(table, "ELG")
    assert elg["trained on"].startswith("CVRP: XML100")
    assert elg["TSP100"] == elg["TSP100, first 1,000"]  # the same two here
    assert cells(table, "savings")["TSP100, first 1,000"] == "-"
    assert cells(table, "Concorde (published)")["TSP100"] == "0.00"
    assert cells(table, "Concorde (published)")["TSP100, first 1,000"] == "-"


def test_gap_of_means(tmp_path: Path) -> None:
    column = LAYOUTS[4].columns[0]
    records = [small.record("elg:2x8", name, cost, group=column.group, best_known=best) for name, cost, best in
               (("a", 11.0, 10.0), ("b", 31.0, 30.0))]  # fmt: skip
    results = Results(tmp_path)
    results.__dict__["records"] = records
    results.__dict__["config"] = small.config(["elg:2x8"], instances={column.group: 2}, full={column.group: 1000})
    assert results.figure(column, "elg.*")[0] == "5.00"  # 42 / 40, not the mean of 10 and 3.33
    records.append(small.record("elg:2x8", "c", 5.0, group=column.group, best_known=None))
    assert results.figure(column, "elg.*")[0] == "cost 15.6667"


def test_ablations_are_measured_if_their_weights_are_there(study: Study, weights: Callable[[str], Path]) -> None:
    study.ablations.mkdir()
    run = study.ablations / "ablation-xi-2"
    run.mkdir()
    shutil.copy(weights("tsp"), run / "last.safetensors")
    shutil.copy(weights("tsp"), study.ablations / "paper-tsp.safetensors")
    brief = replace(study, limit=1)
    table = paper_table(8, brief)
    assert [row[0] for row in table.rows[:2]] == ["ELG (xi = 1, K = 30)", "xi = 2"]
    assert cells(table, "xi = 2")["starts x symmetries"] in ("N x 8", "N, at most 100, x 8")
    assert cells(table, "xi = 1.5 (published)")["TSPLIB"] == "3.41"
    assert "left out, because there are no weights: xi = 1.5 (TSP)" in table.notes
    assert "xi = 2 (TSP): random" in table.notes  # how its weights were trained
    nothing = paper_table(12, replace(brief, ablations=study.folder))
    assert [row[0] for row in nothing.rows] == [
        "local policy only (published)",
        "global policy only (POMO) (published)",
        "ELG (xi = 1, K = 30) (published)",
    ]


def test_hyperparameters() -> None:
    table = paper_tables.hyperparameter_table()
    for row in table.rows:
        assert row[1:3] == row[3:5], row  # the recipes here are the paper's
    assert cells(table, "K")["elg-cvrp"] == "40"


def test_starts_and_symmetries_as_text() -> None:
    every = [small.record("x", "a", 1.0, nodes=9, starts=9, symmetries=8)]
    some = [small.record("x", "b", 1.0, nodes=20, starts=9, symmetries=8)]
    more = [small.record("x", "b", 1.0, nodes=20, starts=10, symmetries=8)]
    assert protocol(every) == "N x 8"
    assert protocol(every + some) == "9 x 8"
    assert protocol(every + more) == "N, at most 10, x 8"
    assert protocol([small.record("x", "a", 1.0, starts=1, symmetries=1)]) == "1 x 1"
    assert protocol([small.record("x", "a", 1.0)]) == "-"


def test_published_rows_say_what_they_were_trained_on() -> None:
    learned = {name for section in ("cvrplib-x", "tsplib", "synthetic", "uniform") for name in published(section)}
    assert learned - set(facts("protocol")) == {"LKH3", "HGS", "HGS, less time", "Concorde"}
    assert set(facts("data")) < set(facts("protocol"))
    assert published("data") == {}  # no figures of a folder with this name
