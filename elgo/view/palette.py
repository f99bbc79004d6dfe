"""Colours and dashes of routes that colour-blind people can tell apart (Okabe and Ito, without yellow)."""

from typing import NamedTuple

import numpy as np

from elgo.problem.distances import FloatArray
from elgo.problem.solution import Solution

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#404040")
DASHES: tuple[tuple[int, ...], ...] = ((), (9, 5), (2, 5))  # lengths of dash and gap; solid first
_DARK = {"#0072b2", "#d55e00", "#009e73", "#404040"}


class RouteStyle(NamedTuple):
    """How a route is drawn."""

    colour: str
    ink: str  # of text on the colour
    dash: tuple[int, ...]


def route_styles(solution: Solution) -> list[RouteStyle]:
    """Return a style for each route, in their order.

    Colours follow the directions in which the routes leave the depot, so that neighbours differ. Where there are more
    routes than colours, the next ones are dashed, then dotted.
    """
    xy = solution.instance.plane()
    routes = [route for route in solution.routes if route]
    centres = np.array([xy[list(route)].mean(axis=0) - xy[0] for route in routes]).reshape(-1, 2)
    return [_style(rank) for rank in _ranks(np.arctan2(centres[:, 1], centres[:, 0]))]


def _ranks(values: FloatArray) -> list[int]:
    ranks: list[int] = np.argsort(np.argsort(values, kind="stable")).tolist()
    return ranks


def _style(rank: int) -> RouteStyle:
    colour = COLOURS[rank % len(COLOURS)]
    return RouteStyle(colour, "#ffffff" if colour in _DARK else "#000000", DASHES[rank // len(COLOURS) % len(DASHES)])
