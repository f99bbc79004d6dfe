"""Styles of routes: different, and different for neighbours."""

import numpy as np

from elgo.problem.instance import Instance, Metric
from elgo.problem.solution import Solution
from elgo.view.palette import COLOURS, DASHES, route_styles


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def star(routes: int) -> Solution:
    """One customer in every direction."""
    angles = np.linspace(0, 2 * np.pi, routes, endpoint=False)
    coords = np.vstack([[0, 0], np.c_[np.cos(angles), np.sin(angles)]])
    demand = np.ones(routes + 1)
    demand[0] = 0
    order = np.random.default_rng(0).permutation(routes) + 1
    return Solution(Instance("star", coords, Metric.EXACT, demand, 1.0), tuple((int(i),) for i in order))


def test_styles_differ() -> None:
    most = len(COLOURS) * len(DASHES)
    assert len(set(route_styles(star(most)))) == most


def test_neighbours_have_different_colours() -> None:
    solution = star(40)
    colour = {route[0]: style.colour for route, style in zip(solution.routes, route_styles(solution), strict=True)}
    assert all(colour[i] != colour[i % 40 + 1] for i in range(1, 40))


def test_numbers_can_be_read_on_their_colour() -> None:
    for style in route_styles(star(21)):
        light, dark = sorted((luminance(style.colour), luminance(style.ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 3.4
