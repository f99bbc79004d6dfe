"""Locks of files: between processes, and where there are none."""

import builtins
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elgo.problem.files import lock_file

TAKE = "import sys; from elgo.problem.files import lock_file; print(lock_file(open(sys.argv[1], 'a')))"


def taken_by_another(path: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", TAKE, path], capture_output=True, text=True, check=True)
    return done.stdout == "False\n"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with open(path, "a") as file:
        assert lock_file(file)
        assert taken_by_another(path)
    assert not taken_by_another(path)


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    original = builtins.__import__

    def missing(name: str, *others: Any) -> Any:
        if name in names:
            raise ImportError(name)
        return original(name, *others)

    monkeypatch.setattr(builtins, "__import__", missing)


def test_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "fcntl", "msvcrt")
    with open(tmp_path / "a", "a") as one, open(tmp_path / "a", "a") as two:
        assert lock_file(one)
        assert lock_file(two)


def test_ranges_are_locked_beyond_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    held = []

    def locking(number: int, mode: int, count: int) -> None:
        if held:
            raise PermissionError(13, "held")
        held.append(number)

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    hide(monkeypatch, "fcntl")
    with open(tmp_path / "a", "a") as one, open(tmp_path / "a", "a") as two:
        assert lock_file(one)
        assert not lock_file(two)
        one.write("content")
    assert (tmp_path / "a").read_text() == "content"
