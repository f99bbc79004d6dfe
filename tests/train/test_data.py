"""Random instances as functions of seed and step."""

import numpy as np
import pytest

from elgo.train.config import DataConfig
from elgo.train.data import batch_size, random_tasks, step_rng


def test_batch_size_is_limited_by_nodes() -> None:
    config = DataConfig(batch=16, nodes=800)
    assert [batch_size(config, n) for n in (10, 50, 100, 300, 2000)] == [16, 16, 8, 2, 1]
    assert batch_size(DataConfig(batch=16), 2000) == 16


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_random_tasks(problem: str) -> None:
    config = DataConfig(sizes="8-12,30", batch=3)
    sizes = set()
    for step in range(30):
        tasks = random_tasks(problem, config, "cluster", step_rng(0, step))
        again = random_tasks(problem, config, "cluster", step_rng(0, step))
        assert len(tasks) == 3
        assert len({len(task.coords) for task in tasks}) == 1
        assert all(np.array_equal(a.coords, b.coords) for a, b in zip(tasks, again, strict=True))
        assert all(np.ptp(task.coords, axis=0).max() == pytest.approx(1) for task in tasks)
        sizes.add(len(tasks[0].coords) - (problem == "cvrp"))
    assert sizes == {8, 9, 10, 11, 12, 30}
    different = random_tasks(problem, DataConfig(sizes="8", batch=1), "cluster", step_rng(1, 0))
    assert not np.array_equal(different[0].coords[:8], tasks[0].coords[:8])
