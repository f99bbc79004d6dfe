"""TSP and CVRP as construction problems against naive loops: masks, steps, batches, lengths."""

import naive
import numpy as np
import pytest
import torch
from samples import KINDS, pad_walks, random_task, random_walk, walk_states

from elgo.model.env import CVRP, ENVIRONMENTS, TSP, make_batch
from elgo.problem.task import PROBLEMS, Task

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def mixed_batch(problem: str, seed: int = 0, walks_each: int = 4):
    """Tasks of several sizes, their batch, and complete random walks (B, M, T) through them."""
    rng = np.random.default_rng(seed)
    tasks = [random_task(rng, problem, n, kind) for n, kind in zip((3, 5, 9, 14), (*KINDS, "uniform"), strict=True)]
    walks = pad_walks([[random_walk(rng, task) for _ in range(walks_each)] for task in tasks])
    return tasks, make_batch(tasks), walks


def test_tsp_masks_by_hand() -> None:
    problem, batch = TSP(), make_batch([Task(SQUARE, None, None), Task(SQUARE[:3], None, None)])
    state = problem.start(batch, torch.tensor([[2], [1]]))
    assert problem.valid(batch, state).tolist() == [[[True, True, False, True]], [[True, False, True, False]]]
    state = problem.step(batch, state, torch.tensor([[0], [0]]))
    state = problem.step(batch, state, torch.tensor([[1], [2]]))
    assert problem.finished(batch, state).tolist() == [[False], [True]]
    assert problem.valid(batch, state).tolist() == [[[False, False, False, True]], [[False, False, True, False]]]
    assert state.first.tolist() == [[2], [1]]
    assert state.current.tolist() == [[1], [2]]


def test_cvrp_masks_by_hand() -> None:
    problem, batch = CVRP(), make_batch([Task(SQUARE, np.array([0, 3, 4, 6]), 8)])

    def after(*nodes: int):
        state = problem.start(batch, torch.tensor([[nodes[0]]]))
        for node in nodes[1:]:
            state = problem.step(batch, state, torch.tensor([[node]]))
        valid = problem.valid(batch, state)[0, 0]
        return int(state.load), valid.nonzero().flatten().tolist(), bool(problem.finished(batch, state))

    assert after(1) == (5, [0, 2], False)  # node 3 does not fit
    assert after(1, 2) == (1, [0], False)
    assert after(1, 2, 0) == (8, [3], False)  # at the depot with work left, only away
    assert after(1, 2, 0, 3) == (2, [0], False)  # all visited, but not yet back
    assert after(1, 2, 0, 3, 0) == (8, [0], True)  # finished: stays at the depot
    assert after(1, 2, 0, 3, 0, 0) == (8, [0], True)


def test_a_customer_without_demand_fits_into_a_full_vehicle() -> None:
    batch = make_batch([Task(SQUARE, np.array([0, 5, 0, 1]), 5)])
    state = CVRP().start(batch, torch.tensor([[1]]))
    assert int(state.load) == 0
    assert CVRP().valid(batch, state)[0, 0].tolist() == [True, False, True, False]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_step_equals_the_naive_one_in_a_padded_batch(problem: str) -> None:
    tasks, batch, walks = mixed_batch(problem)
    rules = ENVIRONMENTS[problem]
    for t, state in enumerate(walk_states(rules, batch, walks), start=1):
        valid, finished = rules.valid(batch, state), rules.finished(batch, state)
        for b, task in enumerate(tasks):
            for m, walk in enumerate(walks[b].tolist()):
                assert valid[b, m].nonzero().flatten().tolist() == naive.valid_nodes(task, walk[:t])
                assert bool(finished[b, m]) == naive.is_over(task, walk[:t])
                assert int(state.load[b, m]) == naive.load_left(task, walk[:t])
                assert (int(state.first[b, m]), int(state.current[b, m])) == (walk[0], walk[t - 1])
                assert not (problem == "cvrp" and bool(state.visited[b, m, 0]))  # the depot never counts as visited


@pytest.mark.parametrize("problem", PROBLEMS)
def test_states_along_given_sequences_equal_stepped_states(problem: str) -> None:
    _, batch, walks = mixed_batch(problem)
    rules = ENVIRONMENTS[problem]
    stepped = list(walk_states(rules, batch, walks))
    _, m, t = walks.shape
    for steps in (torch.arange(1, t), torch.tensor([3, 1, t - 1])):
        along = rules.along(batch, walks, steps)
        for field in along._fields:
            together = getattr(along, field).unflatten(1, (m, len(steps)))
            for s, step in enumerate(steps.tolist()):
                assert torch.equal(together[:, :, s], getattr(stepped[step - 1], field)), (field, step)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_steps_leave_their_arguments_alone(problem: str) -> None:
    _, batch, walks = mixed_batch(problem)
    rules = ENVIRONMENTS[problem]
    state = rules.start(batch, walks[:, :, 0])
    before = [field.clone() for field in state]
    rules.step(batch, state, walks[:, :, 1])
    rules.valid(batch, state)
    assert all(torch.equal(a, b) for a, b in zip(before, state, strict=True))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_length(problem: str) -> None:
    tasks, batch, walks = mixed_batch(problem)
    rules = ENVIRONMENTS[problem]
    expected = [[naive.length(task, walk) for walk in rows] for task, rows in zip(tasks, walks.tolist(), strict=True)]
    np.testing.assert_allclose(rules.length(batch, walks), expected, rtol=1e-6)


def test_length_by_hand() -> None:
    assert float(TSP().length(make_batch([Task(SQUARE, None, None)]), torch.tensor([[[0, 1, 2, 3]]]))) == 4
    batch = make_batch([Task(SQUARE * [3, 4], np.array([0, 1, 1, 1]), 2)])
    assert float(CVRP().length(batch, torch.tensor([[[1, 2, 0, 3, 0, 0]]]))) == 3 + 4 + 5 + 4 + 4


def test_node_features() -> None:
    tsp = make_batch([Task(SQUARE / 4, None, None)])
    assert TSP().node_features(tsp).tolist() == [(SQUARE / 4).tolist()]
    cvrp = make_batch([Task(SQUARE, np.array([0, 1, 2, 4]), 4), Task(SQUARE[:3], np.array([0, 1, 5]), 10)])
    features = CVRP().node_features(cvrp)
    assert features[0].tolist() == [[0, 0, 0], [1, 0, 0.25], [1, 1, 0.5], [0, 1, 1]]
    assert features[1, :, 2].tolist() == [0, pytest.approx(0.1), 0.5, 0]


def test_batch() -> None:
    batch = make_batch([Task(SQUARE, np.array([0, 1, 2, 4]), 4), Task(SQUARE[:3], np.array([0, 1, 5]), 10)])
    assert batch.coords.dtype == torch.float64
    assert batch.real.tolist() == [[True] * 4, [True] * 3 + [False]]
    assert batch.demand.tolist() == [[0, 1, 2, 4], [0, 1, 5, 0]]
    assert batch.capacity.tolist() == [[4], [10]]
    assert batch.size.tolist() == [4, 3]
    moved = batch.to("cpu")
    assert all(torch.equal(a, b) for a, b in zip(batch, moved, strict=True))
    tsp = make_batch([Task(SQUARE, None, None)])
    assert tsp.real is None
    assert tsp.size.tolist() == [4]
    assert not tsp.demand.any()
    assert not tsp.to("cpu").capacity.any()


def test_some_tasks_of_a_batch() -> None:
    tasks = [Task(SQUARE + i, None, None) for i in range(5)]
    batch = make_batch(tasks)
    for rows in (slice(1, 4), torch.tensor([3, 1])):
        chosen = [tasks[i] for i in torch.arange(5)[rows].tolist()]
        for found, expected in zip(batch.select(rows), make_batch(chosen), strict=True):
            assert found is expected is None or torch.equal(found, expected)


@pytest.mark.parametrize(("rules", "nodes", "bounds"), [(TSP(), 4, (3, 3)), (CVRP(), 4, (3, 6))])
def test_bounds_of_the_number_of_moves(rules: object, nodes: int, bounds: tuple[int, int]) -> None:
    """A CVRP from customer 1: 2, 3, 0 in one route; from the depot 1, 0, 2, 0, 3, 0 in three."""
    assert rules.move_bounds(nodes) == bounds


def test_loads_are_exact_beyond_float32() -> None:
    """One unit in 10^12 decides whether a customer fits."""
    demand = np.array([0, 10**12 - 3, 2, 4])
    batch = make_batch([Task(SQUARE, demand, 10**12)])
    state = CVRP().start(batch, torch.tensor([[1]]))
    assert int(state.load) == 3
    assert CVRP().valid(batch, state)[0, 0].tolist() == [True, False, True, False]
