"""Pictures: what is drawn, checked on the axes; and that files appear whole."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from elgo.problem.files import printable
from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.problem.stops import Stops
from elgo.solve.plot import plot_history, plot_instance, plot_solution, save_history, save_plot
from elgo.solve.result import Improvement, Result, Timings


def make(customers: int, routes: int) -> Solution:
    """A CVRP solution: random customers dealt to the routes in order of their angle."""
    rng = np.random.default_rng(customers)
    coords = np.vstack([[500.0, 500.0], rng.uniform(0, 1000, (customers, 2))])
    demand = np.ones(customers + 1)
    demand[0] = 0
    order = 1 + np.argsort(np.arctan2(*(coords[1:] - coords[0]).T))
    parts = tuple(tuple(int(i) for i in part) for part in np.array_split(order, routes))
    instance = Instance("toy", coords, Metric.EUC_2D, demand=demand, capacity=float(customers), best_known=1000.0)
    return Solution(instance, parts)


def make_tour(n: int = 12) -> Solution:
    angle = np.linspace(0, 6, n)
    return Solution(Instance("ring", np.c_[np.cos(angle), np.sin(angle)], Metric.EXACT), (tuple(range(n)),))


def lines(ax) -> list[LineCollection]:
    return [c for c in ax.collections if isinstance(c, LineCollection)]


def test_each_route_has_its_own_style_and_two_dashed_legs() -> None:
    ax = Figure().add_subplot()
    plot_solution(make(60, 9), ax)
    paths, legs = lines(ax)
    assert len(paths.get_segments()) == 9
    styles = [(tuple(c), str(dash)) for c, dash in zip(paths.get_colors(), paths.get_linestyles(), strict=True)]
    assert len(set(styles)) == 9
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0].startswith("1: 7 stops, load 7 / 60, ")
    assert len(texts) == 9
    assert len(legs.get_segments()) == 18
    assert legs.get_linewidth()[0] < paths.get_linewidth()[0]
    assert legs.get_linestyle()[0][1] is not None
    assert ax.get_aspect() == 1.0


def test_a_long_name_does_not_widen_the_picture(tmp_path) -> None:
    instance = replace(make_tour().instance, name="x" * 5000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_plot(Solution(instance, make_tour().routes), tmp_path / "long.svg")
    width = re.search(r'width="([\d.]+)pt"', (tmp_path / "long.svg").read_text())
    assert width
    assert float(width[1]) < 1000


def test_legs_join_the_depot_to_both_ends() -> None:
    solution = make(10, 2)
    ax = Figure().add_subplot()
    plot_solution(solution, ax)
    xy = solution.instance.plane()
    for leg, end in zip(lines(ax)[1].get_segments(), [r[i] for r in solution.routes for i in (0, -1)], strict=True):
        np.testing.assert_array_equal(leg, xy[[0, end]])


def test_a_tour_is_one_closed_line() -> None:
    ax = Figure().add_subplot()
    plot_solution(make_tour(), ax)
    (tour,) = lines(ax)
    (segment,) = tour.get_segments()
    assert len(segment) == 13
    np.testing.assert_array_equal(segment[0], segment[-1])


def test_title_names_cost_gap_and_routes() -> None:
    solution = make(20, 3)
    ax = Figure().add_subplot()
    plot_solution(solution, ax)
    title = ax.get_title()
    assert "toy" in title
    assert f"cost {int(solution.cost)} " in title
    assert "gap " in title
    assert "3 routes" in title
    plot_solution(solution, ax, title="mine")
    assert ax.get_title() == "mine"


def test_only_cvrp_has_a_depot() -> None:
    for instance, marks in ((make(5, 1).instance, 2), (make_tour().instance, 1)):
        ax = Figure().add_subplot()
        plot_instance(instance, ax)
        assert len(ax.collections) == marks


def test_lines_get_thinner_with_size() -> None:
    widths = []
    for n in (10, 100, 1000, 7000):
        ax = Figure().add_subplot()
        plot_solution(make(n, 3), ax)
        widths.append(lines(ax)[0].get_linewidth()[0])
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > 0.3


FOUND = [
    (1e-4, 4.0, "fallback"),
    (0.2, 3.0, "savings"),
    (0.8, 1.5, "policy"),
    (1.5, 1.2, "search"),
    (2.0, 1.1, "search"),
]


def make_result(solution: Solution) -> Result:
    """A history that ends with the solution's cost."""
    history = tuple(Improvement(seconds, solution.cost * times / 1.1, source) for seconds, times, source in FOUND)
    return Result(solution, Timings(0.1, 0.2, 1.0, 4.0), 0, 1, 1, history)


def test_the_axis_of_costs_has_their_unit() -> None:
    instance = Instance.from_coords([[50, 8], [51, 9], [52, 8]], metric="HAVERSINE")
    result = make_result(Solution(instance, ((0, 1, 2),)))
    ax = Figure().add_subplot()
    plot_history(result, ax)
    assert ax.get_ylabel() == "cost, km"
    assert ax.get_lines()[0].get_ydata()[-1] == pytest.approx(result.cost / 1000)


@pytest.mark.parametrize("known", [False, True])
def test_history_is_a_falling_curve_with_marks_by_source(known: bool) -> None:
    result = make_result(make(20, 3) if known else make_tour())
    ax = Figure().add_subplot()
    plot_history(result, ax)
    (line,) = ax.get_lines()
    seconds, heights = line.get_data()
    assert ax.get_xscale() == "log"
    assert seconds[-1] == 4.0  # to the end of the run
    assert (np.diff(seconds) > 0).all()
    best = result.instance.best_known
    expected = [found.cost if best is None else 100 * (found.cost - best) / best for found in result.history]
    np.testing.assert_allclose(heights, [*expected, expected[-1]])
    assert line.get_drawstyle() == "steps-post"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["fallback", "savings", "policy", "search"]
    assert [len(marks.get_offsets()) for marks in ax.collections] == [1, 1, 1, 2]
    assert ("gap" in ax.get_ylabel()) == known


def test_histories_at_the_edge_can_be_drawn(tmp_path) -> None:
    """One solution, found at once; and costs at and below the best known one."""
    result = make_result(make(20, 3))
    at_once = Result(result.solution, Timings(0, 0, 0, 0), 0, 0, 0, result.history[:1])
    low = tuple(
        Improvement(found.seconds, cost, found.source)
        for found, cost in zip(result.history[:3], (1100, 1000, 990), strict=True)
    )
    for name, one in (("a.png", at_once), ("b.svg", Result(result.solution, Timings(0, 0, 0, 1), 0, 0, 0, low))):
        save_history(one, tmp_path / name)
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_save_plot_writes_the_format_of_the_suffix(tmp_path, name: str, magic: bytes) -> None:
    save_plot(make(10, 2), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_unknown_format_is_an_error(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"a\.bmp"):
        save_plot(make_tour(), tmp_path / "a.bmp")
    with pytest.raises(ValueError, match=r"a\.bmp"):
        save_history(make_result(make_tour()), tmp_path / "a.bmp")


def test_a_flat_instance_can_be_drawn(tmp_path) -> None:
    coords = np.c_[np.arange(5.0), np.zeros(5)]
    save_plot(Solution(Instance("line", coords, Metric.EXACT), ((0, 1, 2, 3, 4),)), tmp_path / "line.png")
    assert (tmp_path / "line.png").exists()


def test_stops_are_numbered_and_named(tmp_path) -> None:
    solution = make(12, 2)
    names = tuple(f"stop {i}" for i in range(13))
    ax = Figure(figsize=(8, 8)).add_subplot()
    plot_solution(solution, ax, stops=Stops(names, names))
    texts = [text.get_text() for text in ax.texts]
    assert sorted(text for text in texts if text.isdecimal()) == sorted(str(i) for i in [*range(1, 7), *range(1, 7)])
    assert len({text for text in texts if text.startswith("stop ")}) > 8  # of 13, those with room
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text().startswith("stop")]
    assert all(not box.count_overlaps([other for other in boxes if other is not box]) for box in boxes)
    ax = Figure().add_subplot()
    plot_solution(make(200, 3), ax, stops=Stops.of(make(200, 3).instance))
    assert not ax.texts  # too many


@pytest.mark.parametrize("name", ["$\\x$", "$\\frac{$", "[/] [red]", "%s {0}", "日本\x1b[31m"])
def test_names_are_text_and_not_markup(tmp_path, name: str) -> None:
    solution = make(6, 2)
    instance = Instance(printable(name), solution.instance.coords, Metric.EXACT, solution.instance.demand, 6.0)
    solution = Solution(instance, solution.routes)
    for picture in ("a.png", "a.svg"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            save_plot(solution, tmp_path / picture, Stops((name,) * 7, (name,) * 7))
            save_history(make_result(solution), tmp_path / picture)
