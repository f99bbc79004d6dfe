"""Kin: the bound's alpha against its definition, covers and savings' votes, and instances that have no shape."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from samples import KINDS, random_task

from elgo import kin
from elgo.covering import cover_by_routes
from elgo.kin import LEAST, LEAST_SHARE, STRONG, _solutions, alphas, candidate_edges, find_kin, kin_of
from elgo.model.env import PROBLEMS, Task, make_batch
from elgo.problem.augment import symmetry
from elgo.relaxation import edge_shares
from elgo.search.construct import paths


def cheapest_connected(n: int, edges: np.ndarray, cost: np.ndarray, forced: int = -1) -> float:
    """A minimum spanning tree and the cheapest edge besides; with an edge that must be in it."""
    group, total, besides = list(range(n)), 0.0, []
    order = sorted(range(len(edges)), key=lambda e: (e != forced, cost[e]))
    for e in order:
        a, b = (group[i] for i in edges[e])
        if a != b:
            group = [b if g == a else g for g in group]
            total += cost[e]
        else:
            besides.append(cost[e])
    return total + min(besides)


def test_alpha_is_what_forcing_an_edge_costs() -> None:
    rng = np.random.default_rng(0)
    for n in (4, 6, 9):
        coords = rng.random((n, 2))
        edges = np.stack(np.triu_indices(n, 1), axis=1)
        length = np.hypot(*(coords[edges[:, 0]] - coords[edges[:, 1]]).T)
        alpha, _, _ = alphas(edges, length, n, 0)
        free = cheapest_connected(n, edges, length)
        for e in range(len(edges)):
            # The forced edge may also take the place of the one besides, if that is cheaper than its cycle's.
            rise = min(cheapest_connected(n, edges, length, e), replaced(n, edges, length, e)) - free
            assert alpha[e] == pytest.approx(max(rise, 0.0), abs=1e-12)


def replaced(n: int, edges: np.ndarray, cost: np.ndarray, e: int) -> float:
    """The tree without forcing anything, and edge e as the one besides."""
    group, total = list(range(n)), 0.0
    for i in np.argsort(cost):
        a, b = (group[j] for j in edges[i])
        if a != b:
            if i == e:
                return np.inf
            group = [b if g == a else g for g in group]
            total += cost[i]
    return total + cost[e]


def test_on_a_circle_kin_is_the_tour() -> None:
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    coords = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    table = find_kin(Task(coords, None, None)).dense()
    around = [table[i, (i + 1) % 24] for i in range(24)]
    assert min(around) > 0.99
    assert (table > 0.99).sum() == 48


def test_edges_with_a_share_are_strong() -> None:
    rng = np.random.default_rng(7)
    coords = rng.random((90, 2)) + 9 * rng.integers(3, size=(90, 1))
    edges = candidate_edges(coords)
    share = edge_shares(edges, np.hypot(*(coords[edges[:, 0]] - coords[edges[:, 1]]).T), 90)
    assert share is not None
    value = find_kin(Task(coords, None, None)).dense()[edges[:, 0], edges[:, 1]]
    np.testing.assert_array_equal(value > STRONG, share > LEAST_SHARE)
    np.testing.assert_allclose(value[value > STRONG], 0.5 + share[share > LEAST_SHARE] / 2, atol=1e-6)
    assert (value[value <= STRONG] > 0).sum() > 20  # by alpha


def test_without_a_linear_program_the_ascent_gives_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    coords = np.random.default_rng(8).random((60, 2))
    exact = find_kin(Task(coords, None, None)).dense()
    kin._find_kin.cache_clear()
    monkeypatch.setattr(kin, "MOST_NODES", 0)
    ascent = find_kin(Task(coords, None, None)).dense()
    kin._find_kin.cache_clear()
    assert (ascent != exact).any()
    assert ((ascent > STRONG) == (exact > STRONG)).mean() > 0.98
    assert ((ascent > STRONG).sum(1) >= 2).all()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_and_between_0_and_1(problem: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 5, 13, 60):
        table = find_kin(random_task(rng, problem, n, kind)).dense()
        assert (table == table.T).all()
        assert (np.diag(table) == 0).all()
        assert 0 <= table.min() <= table.max() <= 1
        assert n < 4 or (table.sum(1)[problem == "cvrp" :] >= 0.5).all()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("shape", ["one point", "one line", "pairs"])
def test_points_without_a_shape(problem: str, shape: str) -> None:
    rng = np.random.default_rng(2)
    coords = {
        "one point": np.full((30, 2), 0.5),
        "one line": np.stack([np.linspace(0, 1, 30), np.full(30, 0.5)], axis=1),
        "pairs": np.repeat(rng.random((15, 2)), 2, axis=0),
    }[shape]
    task = Task(coords, None, None) if problem == "tsp" else Task(coords, np.r_[0, np.ones(29, np.int64)], 7)
    table = find_kin(task).dense()
    assert np.isfinite(table).all()
    assert table.sum() > 0


def test_turning_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    coords = rng.random((80, 2))
    turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])
    usual, turned = (find_kin(Task(x, None, None)).dense() for x in (coords, 7 * coords @ turn.T + 2))
    np.testing.assert_allclose(usual, turned, atol=1e-3)


def test_candidates_are_connected() -> None:
    """Two heaps far apart: no node is among the nearest of the other heap."""
    rng = np.random.default_rng(4)
    coords = np.concatenate([rng.random((40, 2)), 100 + rng.random((40, 2))])
    edges = candidate_edges(coords)
    assert (np.diff(edges, axis=1) > 0).all()
    assert len(np.unique(edges, axis=0)) == len(edges)
    assert any((a < 40) != (b < 40) for a, b in edges)


def test_votes_count_routes() -> None:
    """One customer per route: everybody is the depot's neighbour in every solution, and of nobody else."""
    rng = np.random.default_rng(5)
    task = Task(rng.random((9, 2)), np.r_[0, np.full(8, 5)], 5)
    table = find_kin(task).dense()
    assert (table[0, 1:] == STRONG).all()
    assert (table[1:, 1:] == 0).all()


def test_plans_and_savings_vote() -> None:
    task = random_task(np.random.default_rng(7), "cvrp", 60)
    solutions = [paths(links) for links, _ in sorted(_solutions(task), key=lambda solution: solution[1])]
    routes, shares = cover_by_routes(task, solutions)
    expected = np.zeros((60, 60))
    weighted = [*zip(routes, shares, strict=True)]
    weighted += [(np.array(route), 1 / len(solutions)) for solution in solutions for route in solution]
    for route, share in weighted:
        for a, b in pairwise([0, *route.tolist(), 0]):
            expected[a, b] += share * STRONG / 2
            expected[b, a] += share * STRONG / 2
    expected[expected < LEAST] = 0
    kin = find_kin(task)
    np.testing.assert_allclose(kin.dense(), np.minimum(expected, STRONG), atol=1e-6)
    np.testing.assert_array_equal(kin.plans.node, np.concatenate(routes))
    np.testing.assert_allclose(kin.plans.share, shares, atol=1e-6)


def test_without_a_linear_program_savings_vote_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(np.random.default_rng(5).random((9, 2)), np.r_[0, np.full(8, 5)], 5)
    kin._find_kin.cache_clear()
    monkeypatch.setattr(kin, "MOST_NODES", 0)
    found = find_kin(task)
    kin._find_kin.cache_clear()
    assert len(found.plans.share) == 0
    assert (found.dense()[0, 1:] == STRONG).all()


def test_each_symmetry_shows_other_savings() -> None:
    task = random_task(np.random.default_rng(8), "cvrp", 60)
    tables = [find_kin(task._replace(coords=symmetry(task.coords, index))).dense() for index in (0, 0, 2)]
    assert (tables[0] == tables[1]).all()
    assert (tables[0] != tables[2]).any()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_batch_has_that_of_its_tasks(problem: str) -> None:
    rng = np.random.default_rng(6)
    tasks = [random_task(rng, problem, n) for n in (7, 20)]
    both, sparse = kin_of(make_batch(tasks))
    assert both.shape == (2, 20, 20)
    assert sparse == tuple(find_kin(task) for task in tasks)
    for table, task in zip(both, tasks, strict=True):
        n = len(task.coords)
        torch.testing.assert_close(table[:n, :n], torch.from_numpy(find_kin(task).dense()))
        assert table[n:].abs().sum() + table[:, n:].abs().sum() == 0
