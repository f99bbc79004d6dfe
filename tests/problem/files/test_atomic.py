"""Atomic writes: the file is complete or as before, and no temporary file is left."""

import os
from pathlib import Path

import pytest

from elgo.problem.files import append_line, atomic_file, atomic_write, remove_partial_files


def test_atomic_write_replaces_the_file(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a.txt", "old")
    atomic_write(tmp_path / "a.txt", "nëw")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "nëw"
    atomic_write(tmp_path / "b.bin", b"\0\1")
    assert (tmp_path / "b.bin").read_bytes() == b"\0\1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.bin"]


def test_atomic_write_keeps_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    atomic_write(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ValueError, match=r"a\.txt: cannot be written \(No space left on device\)$"):
        atomic_write(tmp_path / "a.txt", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "a.txt", "new")
    assert not list(tmp_path.iterdir())


def test_atomic_write_where_it_is_impossible(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt: cannot be written \(No such file or directory\)$"):
        atomic_write(tmp_path / "none" / "a.txt", "new")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"folder: cannot be written \(Is a directory\)$"):
        atomic_write(tmp_path / "folder", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_atomic_file_keeps_the_old_file_if_the_block_fails(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "a.bin") as file:
        file.write(b"old")
        assert not (tmp_path / "a.bin").exists()

    def fail() -> None:
        with atomic_file(tmp_path / "a.bin") as file:
            file.write(b"half of the new con")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]
    assert (tmp_path / "a.bin").read_bytes() == b"old"


def test_remove_partial_files(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a.txt", "new")
    (tmp_path / ".a.txt.12345678.part").write_text("ne")
    remove_partial_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_symbolic_links_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(ValueError, match=rf"{name}: is a symbolic link"):
            atomic_write(tmp_path / name, "new")
        with pytest.raises(ValueError, match=rf"{name}: is a symbolic link"):
            append_line(tmp_path / name, "new")
    assert (tmp_path / "link").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "target"]


def test_lines_are_appended(tmp_path: Path) -> None:
    append_line(tmp_path / "a.jsonl", "{}")
    append_line(tmp_path / "a.jsonl", "[1]")
    assert (tmp_path / "a.jsonl").read_text() == "{}\n[1]\n"
    (tmp_path / "cut.jsonl").write_text('{}\n{"na')
    append_line(tmp_path / "cut.jsonl", "[1]")
    assert (tmp_path / "cut.jsonl").read_text() == '{}\n{"na\n[1]\n'
    with pytest.raises(ValueError, match=r"x: cannot be written"):
        append_line(tmp_path / "none" / "x", "[1]")
