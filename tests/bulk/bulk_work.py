"""Functions that workers call in tests; a module, so that their processes can import them."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from elgo.problem.instance import Instance

POISON = 13


def double(items: Sequence[int]) -> list[int]:
    return [2 * item for item in items]


def die_of_poison(items: Sequence[int]) -> list[int]:
    """Double the items; the process dies of one of them, every time."""
    if POISON in items:
        os.kill(os.getpid(), signal.SIGKILL)
    return double(items)


def die_once(marker: str, items: Sequence[int]) -> list[int]:
    """Double the items; the first process that is called dies."""
    try:
        with open(marker, "x"):
            pass
    except FileExistsError:
        return double(items)
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def raise_error(items: Sequence[int]) -> list[int]:
    raise ValueError(f"items are {items[0]}")


def process_of(items: Sequence[int]) -> list[int]:
    """Return the number of the process for each item, after a while in which another one is busy, too."""
    time.sleep(0.3)
    return [os.getpid()] * len(items)


def poisoned() -> Instance:
    """Stands for the instance of a file of which the process dies."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a JSONL file."""
    import json

    return [json.loads(line) for line in path.read_text().splitlines()]
