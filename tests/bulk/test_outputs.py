"""Outputs: rows are there after a kill, a cut line is dropped, other settings and a second process are refused."""

import errno
import os
from pathlib import Path

import pytest
from bulk_work import rows_of

from elgo.bulk.outputs import Done, Output
from elgo.bulk.work import Item, Row


def row(number: int, input: str = "a", cost: float | None = 1.5) -> Row:
    return Row(input, number, f"i{number}", "tsp", 3, cost, None, None, ((0, 1, 2),), 0.1, "policy", "", "seed=1")


def item(number: int, input: str = "a") -> Item:
    return Item(input, number, ValueError())


SUFFIXES = [".jsonl", ".parquet"]


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == ".parquet":
        pytest.importorskip("pyarrow")
    return tmp_path / f"out{request.param}"


def test_the_next_run_knows_what_is_done(path: Path) -> None:
    with Output(path, "seed=1") as output:
        assert item(0) not in output.done
        output.write([row(0), row(3)])
        assert item(3) in output.done
    with Output(path, "seed=1") as output:
        assert [number for number in range(6) if item(number) in output.done] == [0, 3]
        assert item(3, "b") not in output.done
        assert output.done.count("a", 3) == 1
        output.write([row(1)])
    with Output(path, "seed=1") as output:
        assert [number for number in range(6) if item(number) in output.done] == [0, 1, 3]


def test_other_settings_are_refused(path: Path) -> None:
    with Output(path, "seed=1") as output:
        output.write([row(0)])
    with pytest.raises(ValueError, match=r"has rows of a run with seed=1, not with seed=2; name another file"):
        Output(path, "seed=2")
    with Output(path, "seed=1") as output:  # it was closed
        assert item(0) in output.done


def test_one_writer(path: Path) -> None:
    with Output(path, "seed=1"), pytest.raises(ValueError, match="another process is writing to it"):
        Output(path, "seed=1")


def test_a_line_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path, "seed=1") as output:
        output.write([row(0), row(1)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with Output(path, "seed=1") as output:
        assert item(1) not in output.done
        output.write([row(1)])
    assert path.read_bytes() == whole
    assert rows_of(path)[1] == {**row(1)._asdict(), "routes": [[0, 1, 2]]}


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("{}\n")
    with pytest.raises(ValueError, match=r"notes.jsonl: line 1 is no row of `elgo bulk`"):
        Output(path, "")
    assert path.read_text() == "{}\n"
    path.write_text('{"coords": [[0, 0]]}')  # a line without an end, but not one that was cut short
    with pytest.raises(ValueError, match=r"notes.jsonl: line 1 is no row of `elgo bulk`"):
        Output(path, "")
    assert path.read_text() == '{"coords": [[0, 0]]}'
    with pytest.raises(ValueError, match=r"suffix is '.csv', expected .jsonl or .parquet"):
        Output(tmp_path / "out.csv", "")


@pytest.mark.parametrize("fields", ['"a", "number": -1', '"a", "number": 1e3', '"a", "number": 99999999999999', "[]"])
def test_rows_of_something_else(tmp_path: Path, fields: str) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(f'{{"number": 0, "settings": "", "input": {fields}}}\n')
    with pytest.raises(ValueError, match=r"notes.jsonl: line 1 is no row of `elgo bulk`"):
        Output(path, "")


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file; what was written before counts in the next run."""

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Output(path, "seed=1") as output:
        output.write([row(0)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match=rf"out\{path.suffix}\S*: cannot be written \(No space left"), Output(
            path, "seed=1"
        ) as output:  # fmt: skip
            output.write([row(1)])
    with Output(path, "seed=1") as output:
        assert item(0) in output.done
        output.write([row(number) for number in (1, 2) if item(number) not in output.done])
    with Output(path, "seed=1") as output:
        assert output.done.count("a", 3) == 3


def test_parquet_is_one_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        with Output(tmp_path / "out.parquet", "seed=1") as output:
            output.write([row(number, cost=None if number else 2.5)])
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["cost"].to_pylist() == [2.5, None]
    assert table["routes"].to_pylist() == [[[0, 1, 2]]] * 2


def test_done_of_many_instances_is_a_byte_each() -> None:
    done = Done()
    for number in range(0, 10_000, 2):
        done.add("a", number)
    assert done.count("a", 10_000) == 5000
    assert len(done._flags["a"]) < 12_000
