"""The critic: its constructions can be driven, savings are savings, and advantages by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import random_task

from elgo.model.env import Task
from elgo.problem.generate import generate
from elgo.search.construct import join_routes, paths
from elgo.train.critic import SHAPES, Ground, move_advantages, survey, values
from elgo.train.labels import as_task


def walks_of(task: Task, count: int, seed: int = 0) -> NDArray[np.int32]:
    """Random rollouts, padded by staying at the depot."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        walk, used = list[int](), 0
        for node in 1 + rng.permutation(len(task.coords) - 1):
            if used + task.demand[node] > task.capacity or (used and rng.random() < 0.2):
                walk.append(0)
                used = 0
            walk.append(int(node))
            used += task.demand[node]
        found.append([*walk, 0])
    longest = max(map(len, found))
    return np.array([walk + [0] * (longest - len(walk)) for walk in found], np.int32)


def shortest(ground: Ground, here: int, used: int, left: frozenset[int]) -> float:
    """By trying everything."""
    if not left:
        return float(ground.way[here, 0])
    ways = [
        ground.way[here, node] + shortest(ground, node, used + ground.demand[node], left - {node})
        for node in left
        if used + ground.demand[node] <= ground.capacity
    ]
    if here:
        ways.append(ground.way[here, 0] + shortest(ground, 0, 0, left))
    return float(min(ways))


@pytest.mark.parametrize("dive", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_shorter_than_the_shortest(dive: bool, seed: int) -> None:
    task = as_task(generate(np.random.default_rng(seed), "cvrp", 6, "set_x"))
    ground, walks = survey(task, dive), walks_of(task, 6, seed)
    found = values(ground, walks)
    for walk, ahead in zip(walks.tolist(), found, strict=True):
        used, left = 0, frozenset(range(1, 7))
        for node, length in zip(walk, ahead, strict=True):
            used, left = (used + ground.demand[node] if node else 0), left - {node}
            assert length >= shortest(ground, node, used, left) - 1e-9
            if not left:
                assert length == ground.way[node, 0]


def test_a_full_vehicle_follows_no_plan() -> None:
    """Its first customer was served on another route, so the plan's end does not fit any more."""
    task = Task(np.random.default_rng(5).random((6, 2)), np.array([0, 1, 1, 1, 1, 1]), 3)
    ground = survey(task, dive=False)._replace(begin=np.array([0, 3]), node=np.array([1, 2, 3]))
    found = values(ground, np.array([[1, 0, 4, 5, 2, 0, 3, 0]], np.int32))
    assert found[0, 4] == pytest.approx(ground.way[2, 0] + 2 * ground.way[3, 0])


def test_from_the_depot_on_it_is_savings() -> None:
    task = random_task(np.random.default_rng(1), "cvrp", 30)
    ground, walks = survey(task, dive=False), walks_of(task, 3)
    found = values(ground, walks)
    for walk, ahead in zip(walks, found, strict=True):
        for t in np.flatnonzero(walk == 0):
            rest = np.setdiff1d(np.arange(30), walk[: t + 1][walk[: t + 1] > 0])
            i, j = np.triu_indices(len(rest), 1)
            i, j = i[i > 0], j[i > 0]
            way, lengths = ground.way[np.ix_(rest, rest)], []
            for shape in SHAPES:
                saved = way[0, i] + way[0, j] - shape * way[i, j]
                order = np.argsort(-saved, kind="stable")
                order = order[saved[order] > 0]
                routes = paths(join_routes(i[order], j[order], task.demand[rest], task.capacity))
                lengths.append(sum(way[[0, *route], [*route, 0]].sum() for route in routes))
            assert ahead[t] == pytest.approx(min(lengths))


def test_plans_make_it_shorter() -> None:
    tasks = [as_task(generate(np.random.default_rng(seed), "cvrp", 40, "set_x")) for seed in range(3)]
    walks = [walks_of(task, 1) for task in tasks]
    with_plans, without = (
        [values(survey(task, dive), walk) for task, walk in zip(tasks, walks, strict=True)] for dive in (True, False)
    )
    assert all((a <= b + 1e-9).all() for a, b in zip(with_plans, without, strict=True))
    assert any((a < b - 1e-9).any() for a, b in zip(with_plans, without, strict=True))


@pytest.mark.parametrize("trace", [0.0, 0.7, 1.0])
def test_advantages_by_hand(trace: float) -> None:
    task = random_task(np.random.default_rng(2), "cvrp", 12)
    walks, ground = walks_of(task, 5), survey(task, dive=False)
    ahead, found = values(ground, walks), move_advantages(task, walks, trace, dive=False)
    expected = np.zeros(found.shape)
    for m, walk in enumerate(walks):
        for t in range(1, len(walk)):
            for later in range(t, len(walk)):
                gain = ahead[m, later - 1] - ahead[m, later] - ground.way[walk[later - 1], walk[later]]
                expected[m, t - 1] += trace ** (later - t) * gain
    expected -= expected.mean(axis=0)
    np.testing.assert_allclose(found, expected / expected.std(), atol=1e-5)


def test_what_is_shared_has_no_advantage() -> None:
    task = random_task(np.random.default_rng(2), "cvrp", 12)
    walks = np.stack([walks_of(task, 1)[0]] * 3)
    a, b, c = np.flatnonzero(walks[0])[-3:]
    walks[1, [a, b]], walks[2, [b, c]] = (
        walks[1, [b, a]],
        walks[2, [c, b]],
    )  # other ways from a on; loads are not looked at
    whole, found = (move_advantages(task, walks, 0.9, dive=False, shared=shared) for shared in (1, int(a)))
    assert not found[:, : a - 1].any()
    assert found[:, a - 1 :].std() == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(found[:, a - 1 :] * whole[:, a - 1 :].std(), whole[:, a - 1 :], atol=1e-5)


def test_nothing_to_compare() -> None:
    task = random_task(np.random.default_rng(3), "cvrp", 2)
    assert not move_advantages(task, np.array([[1, 0], [1, 0]], np.int32), 0.9, dive=True).any()
