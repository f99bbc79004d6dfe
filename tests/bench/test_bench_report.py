"""The report: one page that needs nothing from outside, and the pictures in it."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import small
from matplotlib.figure import Figure

from elgo.bench.report import Results, plot_gap_size, plot_gap_time, plot_scatter, write_report
from elgo.bench.run import Record

METHODS = ["elg", "lkh@1", "lkh@5"]


def results() -> list[Record]:
    return [
        small.record(method, f"i{n}", 100 + 5 * level + n / 100, nodes=n, seconds=spent)
        for level, (method, spent) in enumerate(zip(METHODS, (0.5, 1.0, 5.0), strict=True))
        for n in (50, 100, 200, 400, 800)
    ]


def folder(path: Path, records: list[Record]) -> Path:
    path.mkdir()
    config = small.config(METHODS, instances={"<=200": 5})
    (path / "config.json").write_text(json.dumps(asdict(config)))
    (path / "results.jsonl").write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))
    return path


def test_the_page_is_complete_in_itself(tmp_path: Path) -> None:
    path = folder(tmp_path / "out", results())
    table = write_report(path)
    page = (path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "://" not in page
    assert "<link" not in page
    assert "<script" not in page
    assert "POMO (published)" in page
    assert "i800" in page
    for name in ("gap-time", "gap-size", "scatter"):
        assert (path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (path / "tables.txt").read_text().rstrip() == table.text()


def test_pictures_show_what_they_say() -> None:
    records = results()
    config = small.config(METHODS, instances={"<=200": 5})
    found = Results(config, records)
    time, size, pairs = Figure().subplots(1, 3)
    plot_gap_time(time, found)
    assert time.get_xscale() == "log"
    lines = {line.get_label(): line.get_xydata().tolist() for line in time.lines}
    assert set(lines) == {"elg", "lkh"}
    assert lines["elg"] == [[0.5, pytest.approx(3.1)]]
    assert [point[0] for point in lines["lkh"]] == [1.0, 5.0]
    literature = {"ELG": {"<=200": "~5.5", "other": "9"}, "far": {"<=200": "0.001"}, "none": {"<=200": "-"}}
    plot_gap_size(size, found, literature)
    assert [line.get_label() for line in size.lines] == [*METHODS, "ELG (published)"]
    assert list(size.lines[-1].get_ydata()) == [5.5, 5.5]
    assert size.lines[0].get_xdata()[0] == 50
    plot_scatter(pairs, found)
    assert pairs.get_xlabel() == "gap % with elg"
    assert len(pairs.collections) == 1  # the better one of lkh's two
    assert len(pairs.collections[0].get_offsets()) == 5


def test_what_cannot_be_drawn_is_left_out(tmp_path: Path) -> None:
    alone = [small.record("elg", "a", 7.0, best_known=None)]  # no gap at all
    path = folder(tmp_path / "out", alone)
    write_report(path)
    assert not list(path.glob("*.png"))
    with pytest.raises(ValueError, match=r"results.jsonl: has no results yet"):
        write_report(folder(tmp_path / "empty", []))
