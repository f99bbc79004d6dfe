"""Locks on files, against two processes that write to one folder."""

from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[Any]) -> bool:
    """Lock an open file until it is closed; False if another process has locked it.

    Where the system has no such locks, True: there nothing keeps two processes apart.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
