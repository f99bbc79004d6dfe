"""Atomic writes, used by the whole package: a file is either complete or as it was before."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elgo.problem.errors import ElgoError


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file whose content replaces the file at path when the block ends without an exception.

    The content is written to a temporary file in the same folder, flushed to disk and renamed. Raises ElgoError if
    the file cannot be written, or is a symbolic link, which renaming would replace.
    """
    path = Path(path)
    if path.is_symlink():
        raise ElgoError(f"{path}: is a symbolic link, which is never replaced")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ElgoError(f"{path}: cannot be written ({error.strerror or error})") from None


def atomic_write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write the content to the file at path, see atomic_file."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add a line to the end of a file, flushed to disk; one that was cut short before keeps a line of its own."""
    path = Path(path)
    if path.is_symlink():
        raise ElgoError(f"{path}: is a symbolic link, which is never written to")
    try:
        with open(path, "ab+") as file:
            cut_short = False
            if file.tell():
                file.seek(-1, os.SEEK_END)
                cut_short = file.read(1) != b"\n"
            file.write(b"\n" * cut_short + line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ElgoError(f"{path}: cannot be written ({error.strerror or error})") from None


def remove_partial_files(folder: Path) -> None:
    """Delete what killed processes left of atomic writes to a folder. No other process may be writing to it."""
    for temporary in folder.glob(".*.part"):
        temporary.unlink(missing_ok=True)
