"""Locks of files, so that two processes do not write to one folder."""

from __future__ import annotations

import errno
from typing import IO, Any

FAR = 2**30  # position of the byte that is locked where there are only locks of ranges: no content is there


def lock_file(file: IO[Any]) -> bool:
    """Lock an open file for this process until it is closed; False if another one holds the lock.

    Where files cannot be locked (no such function, or a network drive without it), this is True.
    """
    try:
        _lock(file)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
    return True


def _lock(file: IO[Any]) -> None:
    """Lock without waiting; OSError if that is impossible."""
    try:
        import fcntl
    except ImportError:
        _lock_range(file)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_range(file: IO[Any]) -> None:
    """Lock as Windows does, if this is Windows."""
    try:
        import msvcrt
    except ImportError:
        return
    windows: Any = msvcrt  # whose functions are unknown elsewhere
    position = file.tell()
    file.seek(FAR)
    try:
        windows.locking(file.fileno(), windows.LK_NBLCK, 1)
    finally:
        file.seek(position)
