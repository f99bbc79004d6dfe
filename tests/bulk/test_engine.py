"""The loop that feeds engines: batches as there is room, and what happens when workers die. The local engine."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import bulk_work
import pytest

from elgo.bulk.engine import AHEAD, Ended, run
from elgo.bulk.engines import open_engine
from elgo.bulk.local_engine import LocalEngine
from elgo.solve.worker import WorkerError


class Simulated:
    """An engine in this process, whose workers die of batches with certain items."""

    def __init__(self, workers: int, deadly: dict[int, int] | None = None) -> None:
        self.workers, self.deadly = workers, deadly or {}  # item -> how many workers die of it
        self.calls: list[tuple[int, Callable[..., Any], list[int]]] = []
        self.seen: list[list[int]] = []

    def put(self, ticket: int, function: Callable[..., Any], *arguments: Any) -> None:
        self.calls.append((ticket, function, list(arguments[0])))

    def get(self) -> Ended:
        ticket, function, items = self.calls.pop(0)
        self.seen.append(items)
        for item in items:
            if self.deadly.get(item, 0):
                self.deadly[item] -= 1
                return Ended(ticket, WorkerError("died"))
        return Ended(ticket, function(items))

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


BATCHES = [[1, 2, 3], [4, 5, 6], [7, 8]]
DOUBLED = [2, 4, 6, 8, 10, 12, 14, 16]


def flat(outcomes: Iterator[Any]) -> list[Any]:
    """The values of all items; an error counts for all of its batch."""
    return [
        value
        for items, values in outcomes
        for value in ([values] * len(items) if isinstance(values, Exception) else values)
    ]


def test_all_batches_are_run() -> None:
    assert flat(run(Simulated(1), bulk_work.double, BATCHES)) == DOUBLED
    assert flat(run(Simulated(1), bulk_work.double, [])) == []


def test_batches_are_taken_when_there_is_room() -> None:
    taken = []

    def batches() -> Iterator[list[int]]:
        for number in range(100):
            taken.append(number)
            yield [number]

    outcomes = run(Simulated(3), bulk_work.double, batches())
    next(outcomes)
    assert len(taken) == 3 * AHEAD
    assert sum(1 for _ in outcomes) == 99


def test_a_batch_whose_worker_dies_is_tried_again_as_it_is() -> None:
    engine = Simulated(1, {5: 1})
    assert sorted(flat(run(engine, bulk_work.double, BATCHES))) == DOUBLED
    assert engine.seen.count([4, 5, 6]) == 2
    assert all(len(items) > 1 for items in engine.seen)


def test_items_of_a_deadly_batch_are_tried_one_by_one() -> None:
    engine = Simulated(1, {5: 99})
    values = flat(run(engine, bulk_work.double, BATCHES))
    assert sorted(value for value in values if isinstance(value, int)) == [2, 4, 6, 8, 12, 14, 16]
    assert [str(value) for value in values if isinstance(value, WorkerError)] == ["died"]
    assert engine.seen.count([5]) == 2


def test_processes_of_this_machine() -> None:
    with open_engine("local", 2) as engine:
        assert isinstance(engine, LocalEngine)
        assert sorted(flat(run(engine, bulk_work.double, BATCHES))) == DOUBLED
        assert len(set(flat(run(engine, bulk_work.process_of, [[i] for i in range(6)])))) == 2
        (error,) = flat(run(engine, bulk_work.raise_error, [[7]]))
        assert repr(error) == "ValueError('items are 7')"


def test_processes_that_die_are_replaced(tmp_path: Path) -> None:
    with open_engine("local", 2) as engine:
        once = partial(bulk_work.die_once, str(tmp_path / "marker"))
        assert sorted(flat(run(engine, once, BATCHES))) == DOUBLED
        values = flat(run(engine, bulk_work.die_of_poison, [[1, 2], [12, bulk_work.POISON, 14], [3]]))
    assert sorted(value for value in values if isinstance(value, int)) == [2, 4, 6, 24, 28]
    (error,) = [value for value in values if isinstance(value, WorkerError)]
    assert "its process was ended by SIGKILL" in str(error)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"name": "other"}, "engine is 'other'"), ({"address": "auto"}, "address is 'auto', but the local engine")],
)
def test_wrong_engines(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        open_engine(**options)
