"""Labels: canonical, feasible, and good."""

import itertools
import sys

import numpy as np
import pytest
from tiny import SQUARE, assert_same_label, set_x_sample, trivial_label

from elgo.problem import generate
from elgo.problem.instance import Instance
from elgo.problem.task import Task
from elgo.solve.external import Budget, fleet_size
from elgo.train import labelling
from elgo.train.labelling import LabelStream, parse_sizes


def test_label_makes_one_canonical_tour() -> None:
    for routes in ([[0, 2, 1, 3]], [[1, 3, 0, 2]], [[2, 0, 3, 1]]):
        found = labelling.label(SQUARE, routes)
        assert found.tour.tolist() == [0, 2, 1, 3]
        assert found.cost == 4.0
        assert found.routes == ((0, 2, 1, 3),)


def test_label_makes_one_canonical_giant_tour() -> None:
    sample = Task(np.array([[0, 0], [3, 4], [0, 5], [6, 8]], dtype=float), np.array([0, 2, 2, 3]), 5)
    found = labelling.label(sample, [[2], [3, 1]])
    assert found.tour.tolist() == [0, 1, 3, 0, 2, 0]
    assert found.cost == 5 + 5 + 10 + 5 + 5
    assert found.routes == ((1, 3), (2,))


def test_label_refuses_infeasible_routes() -> None:
    sample = Task(np.eye(4, 2), np.array([0, 2, 2, 3]), 4)
    with pytest.raises(ValueError, match="carries 5, more than the capacity 4"):
        labelling.label(sample, [[1, 3], [2]])
    for routes in ([[1, 2]], [[1, 2], [2, 3]], [[0, 1], [2], [3]]):
        with pytest.raises(ValueError, match="every node once"):
            labelling.label(sample, routes)
    with pytest.raises(ValueError, match="every node once"):
        labelling.label(SQUARE, [[0, 1, 2]])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_tiny_tsps_are_optimal(n: int) -> None:
    sample = generate.tsp(np.random.default_rng(n), n, "uniform")
    best = min(labelling.tour_cost(sample.coords, np.array([0, *rest])) for rest in itertools.permutations(range(1, n)))
    assert labelling.label_tsp(sample, 0.01).cost == pytest.approx(best, rel=1e-4)


def test_tsp_with_equal_points_and_a_lattice() -> None:
    pytest.importorskip("fast_tsp")
    x, y = np.meshgrid(np.arange(6.0), np.arange(6.0))
    grid = np.stack([x.ravel(), y.ravel()], axis=1)
    assert labelling.label_tsp(Task(grid), 0.2).cost == pytest.approx(36.0)
    assert labelling.label_tsp(Task(np.concatenate([grid, grid])), 0.2).cost == pytest.approx(36.0)


def test_tsp_default_time_is_enough() -> None:
    pytest.importorskip("fast_tsp")
    stream = LabelStream("tsp", ((100, 100),), seed=5)
    for i in range(3):
        best = min(stream.labelled(i).cost for _ in range(3))
        assert best / labelling.label_tsp(stream.sample(i), 0.3).cost - 1 < 0.03  # each has about 0.1 %


def test_tsp_labels_count_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the limit of fast_tsp, which is wall-clock time, may pass before it has searched."""
    clock, limits = 0.0, []

    def busy(instance: Instance, budget: Budget, candidates: str) -> list[list[int]]:
        nonlocal clock
        limits.append(budget.seconds)
        clock += budget.seconds / 3  # of CPU time, which is what the other processes leave
        return [list(range(instance.size))]

    monkeypatch.setattr(labelling.external, "fast_tsp", busy)
    monkeypatch.setattr(labelling.time, "process_time", lambda: clock)
    labelling.label_tsp(SQUARE, 0.3)
    assert limits == pytest.approx([0.3, 0.9])


@pytest.mark.parametrize("solver", ["hygese", "pyvrp", "ours"])
def test_tiny_cvrp_is_optimal(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if solver != "ours":
        pytest.importorskip(solver)
    monkeypatch.setattr(labelling, "HGS_LIMIT", 100 if solver == "hygese" else 0)
    # Two pairs on opposite sides: pairing neighbours costs 2 * (10 + 2 + 10), anything else more.
    coords = np.array([[50, 50], [60, 51], [60, 49], [40, 51], [40, 49]]) / 7 - 20.0
    sample = Task(coords, np.array([0, 1, 1, 1, 1]), 2)
    found = labelling.label_cvrp(sample, None if solver == "ours" else 0.5)
    assert found.routes == ((1, 2), (3, 4))


def test_cvrp_labels_are_feasible_on_both_sides_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hygese")
    pytest.importorskip("pyvrp")
    sample = set_x_sample(60, seed=2)
    by_hgs = labelling.label_cvrp(sample, 0.3)  # label() inside checks loads and visits
    monkeypatch.setattr(labelling, "HGS_LIMIT", 10)
    by_pyvrp = labelling.label_cvrp(sample, 2.0)
    assert by_hgs.cost < trivial_label(sample).cost
    assert by_pyvrp.cost == pytest.approx(by_hgs.cost, rel=0.03)


@pytest.mark.parametrize("seconds", [None, 0.05])
def test_cvrp_of_one_and_two_customers(seconds: float | None) -> None:
    if seconds:
        pytest.importorskip("hygese")
    for n in (1, 2):
        sample = Task(np.arange(2.0 * (n + 1)).reshape(-1, 2), np.array([0, 3, 3][: n + 1]), 5)
        assert labelling.label_cvrp(sample, seconds).routes == ((1,), (2,))[:n]


@pytest.mark.parametrize("seed", range(3))
def test_our_own_search_is_close_to_hgs(seed: int) -> None:
    pytest.importorskip("hygese")
    sample = set_x_sample(30, seed)
    found = labelling.label_cvrp(sample)  # label() inside checks loads and visits
    assert found.cost <= 1.05 * labelling.label_cvrp(sample, 0.2).cost
    assert found.cost < 0.8 * trivial_label(sample).cost


def test_our_own_search_needs_no_solver_and_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for solver in ("hygese", "pyvrp", "fast_tsp"):
        monkeypatch.setitem(sys.modules, solver, None)
    sample = set_x_sample(40, 7)
    assert_same_label(labelling.label_cvrp(sample, seed=3), labelling.label_cvrp(sample, seed=3))
    stream = LabelStream("cvrp", ((15, 25),), "set_x", seed=2)
    assert_same_label(stream.labelled(4), stream.labelled(4))
    assert_same_label(stream.labelled(4), labelling.label_cvrp(stream.sample(4), seed=4))


def test_fleet_is_large_enough_for_bulky_demands() -> None:
    assert fleet_size(np.array([0] + [6] * 30), 10) == 31  # HGS's own rule offers 27


def test_missing_solver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_tsp", None)
    with pytest.raises(ImportError, match=r"fast_tsp.*elgo\[train\]"):
        labelling.label_tsp(SQUARE, 0.01)


# --- streams: instance i depends on the stream and i alone


def test_sizes() -> None:
    assert parse_sizes("100,200") == ((100, 100), (200, 200))
    assert parse_sizes("50-1000,100") == ((50, 1000), (100, 100))
    with pytest.raises(ValueError, match="sizes is 'many'"):
        parse_sizes("many")
    sizes = [LabelStream("tsp", ((50, 1000),)).size(i) for i in range(2000)]
    assert min(sizes) < 60
    assert max(sizes) > 900
    assert max(sizes) <= 1000
    assert np.mean(np.array(sizes) < 224) == pytest.approx(0.5, abs=0.05)  # log-uniform: half below sqrt(50 * 1000)


def test_instances_depend_on_seed_and_index_alone() -> None:
    stream = LabelStream("cvrp", ((20, 80),), seed=3)
    forward = [stream.sample(i) for i in range(6)]
    for i in reversed(range(6)):
        again = LabelStream("cvrp", ((20, 80),), seed=3).sample(i)
        assert np.array_equal(forward[i].coords, again.coords)
        assert forward[i].capacity == again.capacity
    other = LabelStream("cvrp", ((20, 80),), seed=4).sample(0)
    validation = LabelStream("cvrp", ((20, 80),), seed=3, validation=True).sample(0)
    assert other.coords.tobytes() != forward[0].coords.tobytes() != validation.coords.tobytes()


def test_groups_share_their_size() -> None:
    stream = LabelStream("tsp", ((20, 500),), group=8)
    sizes = np.array([stream.size(i) for i in range(80)]).reshape(10, 8)
    assert (sizes == sizes[:, :1]).all()
    assert len(set(sizes[:, 0].tolist())) > 5
    assert not np.array_equal(stream.sample(0).coords, stream.sample(1).coords)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"problem": "vrptw", "sizes": ((10, 10),)}, "problem is 'vrptw'"),
        ({"problem": "tsp", "sizes": ()}, "sizes is"),
        ({"problem": "tsp", "sizes": ((20, 10),)}, "sizes is"),
        ({"problem": "tsp", "sizes": ((10, 10),), "group": 0}, "group is 0"),
        ({"problem": "tsp", "sizes": ((10, 10),), "seed": -1}, "seed is -1"),
    ],
)
def test_broken_streams(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelStream(**fields)
