"""Synthetic distributions: range, determinism, and the rules of the generators they reproduce."""

import hashlib
import math

import numpy as np
import pytest

from elgo.problem import generate


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("distribution", generate.POINT_DISTRIBUTIONS)
@pytest.mark.parametrize("n", [3, 7, 100, 301])
def test_points_lie_in_the_unit_square_and_repeat_by_seed(distribution: str, n: int) -> None:
    for seed in range(8):
        points = generate.points(rng(seed), n, distribution)
        assert points.shape == (n, 2)
        assert points.dtype == np.float64
        assert np.isfinite(points).all()
        assert points.min() >= 0
        assert points.max() <= 1
        assert np.ptp(points, axis=0).max() > 0
        assert np.array_equal(points, generate.points(rng(seed), n, distribution))


def test_points_differ_between_seeds() -> None:
    for distribution in generate.POINT_DISTRIBUTIONS:
        assert not np.array_equal(generate.points(rng(1), 50, distribution), generate.points(rng(2), 50, distribution))


def test_clusters_have_the_papers_spread() -> None:
    points = generate.points(rng(), 30_000, "cluster")
    parts = points.reshape(3, 10_000, 2)
    assert np.allclose(parts.std(axis=1), 0.07, atol=0.003)
    assert (parts.mean(axis=1) > 0.19).all()
    assert (parts.mean(axis=1) < 0.81).all()


def test_half_of_a_mixture_is_one_cluster() -> None:
    points = generate.points(rng(3), 2000, "mixture")
    centre = np.median(points, axis=0)
    within = (np.linalg.norm(points - centre, axis=1) < 0.21).mean()  # three standard deviations
    assert 0.5 < within < 0.65


def test_explosion_empties_a_disc() -> None:
    for seed in range(5):
        draw = rng(seed)
        exploded = generate.points(draw, 2000, "explosion")
        # Some grid point is the centre of an empty disc of radius 0.15 (0.3 before rescaling).
        probe = np.stack(np.meshgrid(np.linspace(0, 1, 30), np.linspace(0, 1, 30)), axis=-1).reshape(-1, 2)
        assert np.linalg.norm(probe[:, None] - exploded[None], axis=2).min(axis=1).max() > 0.15


@pytest.mark.parametrize("distribution", ["explosion", "rotation"])
def test_mutated_points_span_the_square(distribution: str) -> None:
    """The published sets subtract the minimum of each axis and divide both by the longer extent."""
    for seed in range(20):
        points = generate.points(rng(seed), 100, distribution)
        assert points.min(axis=0).tolist() == [0.0, 0.0]
        assert points.max() == 1.0


def test_two_fifths_of_the_points_are_rotated() -> None:
    """Differences between successive points that both stay are only scaled."""
    original, rotated = rng(1).random((20_000, 2)), generate.points(rng(1), 20_000, "rotation")
    scale = np.linalg.norm(np.diff(rotated, axis=0), axis=1) / np.linalg.norm(np.diff(original, axis=0), axis=1)
    same = np.abs(np.diff(rotated, axis=0) / np.median(scale) - np.diff(original, axis=0)).max(axis=1) < 1e-9
    assert same.mean() == pytest.approx(0.6**2, abs=0.02)


# Mean near-optimal tours at N = 100 of the paper's test sets, 1,000 instances each.
MEAN_TOURS = {"cluster": 3.67, "mixture": 6.73, "explosion": 6.18, "rotation": 6.12}


@pytest.mark.parametrize("distribution", MEAN_TOURS)
def test_mean_tours_are_the_papers(distribution: str) -> None:
    fast_tsp = pytest.importorskip("fast_tsp")
    lengths = []
    for seed in range(200):
        coords = generate.tsp(rng(seed), 100, distribution).coords
        distance = np.linalg.norm(coords[:, None] - coords[None], axis=2)
        tour = fast_tsp.find_tour(np.rint(distance * 10_000).astype(int).tolist(), duration_seconds=0.01)
        lengths.append(distance[tour, np.roll(tour, -1)].sum())
    assert np.mean(lengths) == pytest.approx(MEAN_TOURS[distribution], abs=0.1)


def test_lattices_have_many_equal_distances() -> None:
    """Most lattice draws have far fewer distinct nearest-neighbour distances than uniform points do."""

    def distinct(points: np.ndarray) -> int:
        distance = np.linalg.norm(points[:, None] - points[None], axis=2) + 9 * np.eye(len(points))
        return len(np.unique(distance.min(axis=1).round(9)))

    counts = [distinct(generate.points(rng(seed), 100, "lattice")) for seed in range(40)]
    assert np.median(counts) < 25


def test_tsp_sample() -> None:
    sample = generate.tsp(rng(), 40)
    assert sample.problem == "tsp"
    assert sample.size == sample.customers == 40
    assert sample.demand is None
    assert sample.capacity is None


@pytest.mark.parametrize("distribution", generate.CVRP_DISTRIBUTIONS)
@pytest.mark.parametrize("customers", [2, 20, 150])
def test_cvrp_is_feasible_and_repeats_by_seed(distribution: str, customers: int) -> None:
    for seed in range(5):
        sample = generate.cvrp(rng(seed), customers, distribution)
        again = generate.cvrp(rng(seed), customers, distribution)
        assert sample.demand is not None
        assert sample.capacity is not None
        assert again.demand is not None
        assert sample.problem == "cvrp"
        assert sample.customers == customers
        assert sample.size == customers + 1
        assert sample.demand.dtype == np.int64
        assert sample.demand[0] == 0
        assert sample.demand[1:].min() >= 1
        assert sample.demand.max() <= sample.capacity
        assert np.array_equal(sample.coords, again.coords)
        assert np.array_equal(sample.demand, again.demand)
        assert sample.capacity == again.capacity


def test_set_x_uses_distinct_cells_of_the_grid() -> None:
    for seed in range(12):
        coords = generate.cvrp(rng(seed), 300, "set_x").coords
        assert np.array_equal(coords, np.rint(coords))
        assert coords.min() >= 0
        assert coords.max() <= 1000
        assert len(np.unique(coords, axis=0)) == 301


def test_set_x_places_depots_three_ways() -> None:
    depots = [tuple(generate.cvrp(rng(seed), 20, "set_x").coords[0]) for seed in range(60)]
    assert 8 < depots.count((0.0, 0.0)) < 32
    assert 8 < depots.count((500.0, 500.0)) < 32


def test_set_x_route_lengths_follow_the_triangle() -> None:
    lengths = []
    for seed in range(150):
        sample = generate.cvrp(rng(seed), 100, "set_x")
        assert sample.demand is not None
        assert sample.capacity is not None
        lengths.append(sample.capacity / sample.demand[1:].mean())
    assert min(lengths) > 2.9
    assert max(lengths) < 27
    assert np.mean(lengths) == pytest.approx((3 + 6 + 25) / 3, abs=1.2)


def test_long_routes_reach_further() -> None:
    lengths = []
    for seed in range(40):
        sample = generate.cvrp(rng(seed), 400, "set_x_long")
        assert sample.demand is not None
        assert sample.capacity is not None
        lengths.append(sample.capacity / sample.demand[1:].mean())
    assert max(lengths) > 60
    assert max(lengths) < 102


def test_capacity_rule() -> None:
    assert generate.capacity_for(np.array([1, 2, 3, 4]), 2.0) == 5  # ceil(2 * 10 / 4)
    assert generate.capacity_for(np.array([1, 2, 3, 5]), 2.0) == 6  # ceil(5.5)
    assert generate.capacity_for(np.array([1, 1, 1, 90]), 3.0) == 90  # never below the largest demand
    assert generate.capacity_for(np.ones(7, dtype=np.int64), 6.0) == 6


def test_xxl_demands() -> None:
    demand = generate.cvrp(rng(4), 3000, "xxl").demand
    assert demand is not None
    assert set(demand[1:].tolist()) == {1, 2, 3}
    assert (demand[1:] == 1).mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("distribution", ["uniform", "cluster", "mixture", "explosion", "rotation"])
def test_synthetic_cvrps_are_the_papers(distribution: str) -> None:
    sample = generate.cvrp(rng(), 500, distribution)
    assert sample.demand is not None
    assert set(sample.demand[1:].tolist()) == set(range(1, 10))
    assert sample.capacity == 100


def test_capacities_by_size() -> None:
    known = {20: 30, 50: 40, 100: 50, 200: 80, 500: 100, 1000: 250}
    between = {35: 35, 75: 45, 104: 51, 105: 52, 150: 65, 350: 90, 750: 175}  # linear, rounded half up
    outside = {1: 30, 10: 30, 2000: 250}
    for customers, capacity in (known | between | outside).items():
        assert generate.capacity_by_size(customers) == capacity


# A hash of what each generator returns. Whoever changes one raises GENERATOR_VERSION too, so that stores of labels and
# validation sets of both versions are kept apart.
PINNED_VERSION = 2
PINNED = {
    ("tsp", "uniform"): "2101c2a3d3ef",
    ("tsp", "cluster"): "5708efe015ba",
    ("tsp", "mixture"): "f92efa03afd9",
    ("tsp", "explosion"): "714adc739c1b",
    ("tsp", "rotation"): "82a0e9cb0293",
    ("tsp", "lattice"): "98879a8f79fb",
    ("tsp", "gaussians"): "7b4acf71aed7",
    ("tsp", "roads"): "fe82b7c078b9",
    ("tsp", "mixed"): "8e098b9ae2cb",
    ("cvrp", "set_x"): "d180495ec1d3",
    ("cvrp", "set_x_long"): "f8113c3259ea",
    ("cvrp", "xxl"): "d62d17e207c5",
    ("cvrp", "uniform"): "fd48bd05f1e9",
    ("cvrp", "cluster"): "d18c356bcd10",
    ("cvrp", "mixture"): "227e82e41524",
    ("cvrp", "explosion"): "26df2995826f",
    ("cvrp", "rotation"): "6335a6e75aea",
    ("cvrp", "lattice"): "2ddf30c4f751",
    ("cvrp", "gaussians"): "76ec774f4b59",
    ("cvrp", "roads"): "a0fc89a5bf7a",
    ("cvrp", "mixed"): "abdf5938a4d5",
}


def digest(problem: str, distribution: str) -> str:
    """The start of the SHA-256 of 30 instances, rounded to six digits against differences between platforms."""
    found = hashlib.sha256()
    for seed in range(30):
        sample = generate.generate(rng(seed), problem, 24, distribution)
        demand = [] if sample.demand is None else sample.demand.tolist()
        found.update(repr((np.rint(sample.coords * 1e6).astype(int).tolist(), demand, sample.capacity)).encode())
    return found.hexdigest()[:12]


def test_generators_change_only_with_their_version() -> None:
    found = {("tsp", name): digest("tsp", name) for name in generate.POINT_DISTRIBUTIONS}
    found |= {("cvrp", name): digest("cvrp", name) for name in generate.CVRP_DISTRIBUTIONS}
    assert (generate.GENERATOR_VERSION, found) == (PINNED_VERSION, PINNED)


def test_kool_test_sets_are_the_legacy_stream() -> None:
    np.random.seed(5)
    untouched = np.random.uniform()
    np.random.seed(5)
    tsp = generate.kool_test_set("tsp", 2)
    cvrp = generate.kool_test_set("cvrp", 3)
    assert np.random.uniform() == untouched  # the global generator is left alone
    # The first numbers of np.random.seed(1234); np.random.uniform.
    assert np.allclose(
        tsp[0].coords[:2], [[0.1915194503788923, 0.6221087710398319], [0.4377277390071145, 0.7853585837]]
    )
    np.random.seed(1234)
    expected = np.random.uniform(size=(10_000, 100, 2))
    assert np.array_equal(tsp[1].coords, expected[1])
    np.random.seed(1234)
    depots, customers = np.random.uniform(size=(10_000, 2)), np.random.uniform(size=(10_000, 100, 2))
    demands = np.random.randint(1, 10, size=(10_000, 100))
    assert len(cvrp) == 3
    assert cvrp[2].capacity == 50
    assert cvrp[2].demand is not None
    assert np.array_equal(cvrp[2].coords[0], depots[2])
    assert np.array_equal(cvrp[2].coords[1:], customers[2])
    assert cvrp[2].demand[0] == 0
    assert np.array_equal(cvrp[2].demand[1:], demands[2])


def test_unknown_names_are_errors() -> None:
    with pytest.raises(ValueError, match="distribution is 'hexagon'"):
        generate.points(rng(), 10, "hexagon")
    with pytest.raises(ValueError, match="distribution is 'hexagon'"):
        generate.cvrp(rng(), 10, "hexagon")
    with pytest.raises(ValueError, match="problem is 'vrptw'"):
        generate.generate(rng(), "vrptw", 10)
    with pytest.raises(ValueError, match="problem is 'vrptw'"):
        generate.kool_test_set("vrptw")
    with pytest.raises(ValueError, match="count is 10001"):
        generate.kool_test_set("tsp", 10_001)


def test_as_instance_keeps_everything() -> None:
    instance_module = pytest.importorskip("elgo.problem.instance")
    sample = generate.cvrp(rng(), 12, "set_x")
    instance = generate.as_instance(sample, "x")
    assert instance.name == "x"
    assert instance.metric is instance_module.Metric.EXACT
    assert instance.problem == "cvrp"
    assert np.array_equal(instance.coords, sample.coords)
    assert instance.capacity == sample.capacity
    assert float(instance.distances(0, 1)) == pytest.approx(math.dist(sample.coords[0], sample.coords[1]))
    assert generate.as_instance(generate.tsp(rng(), 5)).problem == "tsp"
