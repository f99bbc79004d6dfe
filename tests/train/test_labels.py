"""Labels: feasible, good, reproducible data order, and stores that survive a kill."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from elgo.problem import generate
from elgo.problem.generate import Sample
from elgo.train import labels
from elgo.train.labels import Labelled, LabelStore, Stream

SQUARE = Sample(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))


def cvrp_of(n: int, seed: int = 0) -> Sample:
    return generate.cvrp(np.random.default_rng(seed), n, "set_x")


def plain(sample: Sample) -> Labelled:
    """A label without a solver: nodes in order, or one customer per route."""
    nodes = range(sample.size)
    return labels.label(sample, [nodes] if sample.demand is None else [[i] for i in nodes[1:]])


def assert_same(a: Labelled, b: Labelled) -> None:
    assert np.array_equal(a.sample.coords, b.sample.coords)
    assert np.array_equal(a.tour, b.tour)
    assert a.cost == b.cost
    assert (a.sample.demand is None) == (b.sample.demand is None)
    assert a.sample.capacity == b.sample.capacity
    if a.sample.demand is not None and b.sample.demand is not None:
        assert np.array_equal(a.sample.demand, b.sample.demand)
        assert b.sample.demand.dtype == np.int64


# ---- label ----


def test_label_makes_one_canonical_tour() -> None:
    for routes in ([[0, 2, 1, 3]], [[1, 3, 0, 2]], [[2, 0, 3, 1]]):
        found = labels.label(SQUARE, routes)
        assert found.tour.tolist() == [0, 2, 1, 3]
        assert found.cost == 4.0
        assert found.routes == ((0, 2, 1, 3),)


def test_label_makes_one_canonical_giant_tour() -> None:
    sample = Sample(np.array([[0, 0], [3, 4], [0, 5], [6, 8]], dtype=float), np.array([0, 2, 2, 3]), 5)
    found = labels.label(sample, [[2], [3, 1]])
    assert found.tour.tolist() == [0, 1, 3, 0, 2, 0]
    assert found.cost == 5 + 5 + 10 + 5 + 5
    assert found.routes == ((1, 3), (2,))


def test_label_refuses_infeasible_routes() -> None:
    sample = Sample(np.eye(4, 2), np.array([0, 2, 2, 3]), 4)
    with pytest.raises(ValueError, match="carries 5, more than the capacity 4"):
        labels.label(sample, [[1, 3], [2]])
    for routes in ([[1, 2]], [[1, 2], [2, 3]], [[0, 1], [2], [3]]):
        with pytest.raises(ValueError, match="every node once"):
            labels.label(sample, routes)
    with pytest.raises(ValueError, match="every node once"):
        labels.label(SQUARE, [[0, 1, 2]])


# ---- solvers ----


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_tiny_tsps_are_optimal(n: int) -> None:
    sample = generate.tsp(np.random.default_rng(n), n, "uniform")
    best = min(labels.tour_cost(sample.coords, np.array([0, *rest])) for rest in itertools.permutations(range(1, n)))
    assert labels.label_tsp(sample, 0.01).cost == pytest.approx(best, rel=1e-4)


def test_tsp_with_equal_points_and_a_lattice() -> None:
    pytest.importorskip("fast_tsp")
    x, y = np.meshgrid(np.arange(6.0), np.arange(6.0))
    grid = np.stack([x.ravel(), y.ravel()], axis=1)
    assert labels.label_tsp(Sample(grid), 0.2).cost == pytest.approx(36.0)
    assert labels.label_tsp(Sample(np.concatenate([grid, grid])), 0.2).cost == pytest.approx(36.0)


def test_tsp_default_time_is_enough() -> None:
    pytest.importorskip("fast_tsp")
    stream = Stream("tsp", ((100, 100),), seed=5)
    for i in range(3):
        best = min(stream.labelled(i).cost for _ in range(4))  # on a busy machine some get no time at all
        assert best / labels.label_tsp(stream.sample(i), 0.3).cost - 1 < 0.03  # on an idle one each has about 0.1 %


@pytest.mark.parametrize("solver", ["hygese", "pyvrp", "ours"])
def test_tiny_cvrp_is_optimal(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if solver != "ours":
        pytest.importorskip(solver)
    monkeypatch.setattr(labels, "HGS_LIMIT", 100 if solver == "hygese" else 0)
    # Two pairs on opposite sides: pairing neighbours costs 2 * (10 + 2 + 10), anything else more.
    coords = np.array([[50, 50], [60, 51], [60, 49], [40, 51], [40, 49]]) / 7 - 20.0
    sample = Sample(coords, np.array([0, 1, 1, 1, 1]), 2)
    found = labels.label_cvrp(sample, None if solver == "ours" else 0.5)
    assert found.routes == ((1, 2), (3, 4))


def test_cvrp_labels_are_feasible_on_both_sides_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hygese")
    pytest.importorskip("pyvrp")
    sample = cvrp_of(60, seed=2)
    by_hgs = labels.label_cvrp(sample, 0.3)  # label() inside checks loads and visits
    monkeypatch.setattr(labels, "HGS_LIMIT", 10)
    by_pyvrp = labels.label_cvrp(sample, 2.0)
    assert by_hgs.cost < plain(sample).cost
    assert by_pyvrp.cost == pytest.approx(by_hgs.cost, rel=0.03)


@pytest.mark.parametrize("seconds", [None, 0.05])
def test_cvrp_of_one_and_two_customers(seconds: float | None) -> None:
    if seconds:
        pytest.importorskip("hygese")
    for n in (1, 2):
        sample = Sample(np.arange(2.0 * (n + 1)).reshape(-1, 2), np.array([0, 3, 3][: n + 1]), 5)
        assert labels.label_cvrp(sample, seconds).routes == ((1,), (2,))[:n]


@pytest.mark.parametrize("seed", range(3))
def test_our_own_search_is_close_to_hgs(seed: int) -> None:
    pytest.importorskip("hygese")
    sample = cvrp_of(30, seed)
    found = labels.label_cvrp(sample)  # label() inside checks loads and visits
    assert found.cost <= 1.05 * labels.label_cvrp(sample, 0.2).cost
    assert found.cost < 0.8 * plain(sample).cost


def test_our_own_search_needs_no_solver_and_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for solver in ("hygese", "pyvrp", "fast_tsp"):
        monkeypatch.setitem(sys.modules, solver, None)
    sample = cvrp_of(40, 7)
    assert_same(labels.label_cvrp(sample, seed=3), labels.label_cvrp(sample, seed=3))
    stream = Stream("cvrp", ((15, 25),), "set_x", seed=2)
    assert_same(stream.labelled(4), stream.labelled(4))
    assert_same(stream.labelled(4), labels.label_cvrp(stream.sample(4), seed=4))


def test_fleet_is_large_enough_for_bulky_demands() -> None:
    assert labels.fleet(np.array([0] + [6] * 30), 10) == 31  # HGS's own rule offers 27


def test_missing_solver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_tsp", None)
    with pytest.raises(ImportError, match=r"fast_tsp.*elgo\[train\]"):
        labels.label_tsp(SQUARE, 0.01)


# ---- streams ----


def test_sizes() -> None:
    assert labels.parse_sizes("100,200") == ((100, 100), (200, 200))
    assert labels.parse_sizes("50-1000,100") == ((50, 1000), (100, 100))
    with pytest.raises(ValueError, match="sizes is 'many'"):
        labels.parse_sizes("many")
    sizes = [Stream("tsp", ((50, 1000),)).size(i) for i in range(2000)]
    assert min(sizes) < 60
    assert max(sizes) > 900
    assert max(sizes) <= 1000
    assert np.mean(np.array(sizes) < 224) == pytest.approx(0.5, abs=0.05)  # log-uniform: half below sqrt(50 * 1000)


def test_instances_depend_on_seed_and_index_alone() -> None:
    stream = Stream("cvrp", ((20, 80),), seed=3)
    forward = [stream.sample(i) for i in range(6)]
    for i in reversed(range(6)):
        again = Stream("cvrp", ((20, 80),), seed=3).sample(i)
        assert np.array_equal(forward[i].coords, again.coords)
        assert forward[i].capacity == again.capacity
    other = Stream("cvrp", ((20, 80),), seed=4).sample(0)
    validation = Stream("cvrp", ((20, 80),), seed=3, validation=True).sample(0)
    assert other.coords.tobytes() != forward[0].coords.tobytes() != validation.coords.tobytes()


def test_groups_share_their_size() -> None:
    stream = Stream("tsp", ((20, 500),), group=8)
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
        Stream(**fields)


# ---- stores ----


def test_store_round_trip(tmp_path: Path) -> None:
    made = [plain(cvrp_of(n, n)) for n in (5, 30, 12)] + [plain(SQUARE), plain(cvrp_of(8))]
    store = LabelStore(tmp_path / "store")
    assert len(store) == 0
    assert store.load() == []
    store.add([])
    store.add(made[:2])
    store.add(made[2:])
    again = LabelStore(tmp_path / "store")
    assert len(again) == 5
    for a, b in zip(made, again.load(), strict=True):
        assert_same(a, b)
    for start in range(6):
        tail = again.load(start)
        assert len(tail) == 5 - start
        for a, b in zip(made[start:], tail, strict=True):
            assert_same(a, b)


def test_half_written_shard_is_ignored(tmp_path: Path) -> None:
    store = LabelStore(tmp_path)
    store.add([plain(SQUARE)])
    (tmp_path / ".00000001.npz.77.part").write_bytes((tmp_path / "00000000.npz").read_bytes()[:100])
    assert len(store) == 1
    assert len(store.load()) == 1
    store.add([plain(SQUARE)])
    assert len(store) == 2


def test_failed_write_leaves_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LabelStore(tmp_path)
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.add([plain(SQUARE)])
    assert len(store) == 0
    assert store.load() == []


def test_make_labels_resumes_and_guards_the_stream(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    stream, lines = Stream("tsp", ((5, 9),), seed=1), list[str]()
    store = LabelStore(tmp_path / "s")
    assert labels.make_labels(store, stream, count=3, report=lines.append) == 3
    assert labels.make_labels(store, stream, count=5, report=lines.append) == 5
    assert lines[-1] == "s: 5 labels, done"
    for i, found in enumerate(store.load()):
        assert np.array_equal(found.sample.coords, stream.sample(i).coords)
    with pytest.raises(ValueError, match="holds the stream"):
        labels.make_labels(store, Stream("tsp", ((5, 9),), seed=2), count=6)


def test_two_workers_keep_the_order(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    stream, store = Stream("tsp", ((5, 9),), seed=1), LabelStore(tmp_path)
    assert labels.make_labels(store, stream, count=12, workers=2, report=lambda line: None) == 12
    for i, found in enumerate(store.load()):
        assert np.array_equal(found.sample.coords, stream.sample(i).coords)


def make_command(store: Path, sizes: str) -> list[str]:
    return [sys.executable, "-m", "elgo.train.labels", "make", str(store), "--problem", "tsp", "--sizes", sizes]


def test_sigterm_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    process = subprocess.Popen(make_command(tmp_path / "s", "50"), stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "s" / "stream.json").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "stopped" in output
    assert len(LabelStore(tmp_path / "s").load()) == len(LabelStore(tmp_path / "s")) > 0


def test_command_line_error_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(make_command(tmp_path / "s", "x"), capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "sizes is 'x'; write 100,200 or 50-1000\n"


def test_read_xml100(tmp_path: Path) -> None:
    coords = np.array([[[0, 0], [3, 4], [0, 5], [6, 8]]], dtype=np.int16)
    np.savez(
        tmp_path / "xml.npz",
        coords=coords,
        demand=np.array([[0, 2, 2, 3]], dtype=np.int16),
        capacity=np.array([5], dtype=np.int32),
        cost=np.array([30], dtype=np.int32),
        giant_tour=np.array([[0, 3, 1, 0, 2, 0, 0, 0]], dtype=np.int16),
    )
    (found,) = labels.read_xml100(tmp_path / "xml.npz")
    assert found.routes == ((1, 3), (2,))
    assert found.cost == 30
    assert found.sample.capacity == 5
