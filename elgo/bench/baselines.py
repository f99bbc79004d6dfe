"""Baselines by name: the outside solvers of `elgo.solve.external`, which need the extra `elgo[bench]`, and heuristics.

Answers are checked and costed by elgo.problem.solution. A time limit is wall-clock time from instance to routes.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from elgo.problem.instance import Instance
from elgo.solve import external
from elgo.solve.external import Budget, Routes


@dataclass(frozen=True)
class Baseline:
    """A solver: the problems it can solve, its package, and whether it searches until a time limit."""

    name: str
    problems: tuple[str, ...]
    solve: Callable[[Instance, Budget], Routes | None]  # None: it found nothing feasible
    limited: bool = False
    module: str = ""  # to import; empty: our own
    package: str = ""  # to install

    def require(self) -> None:
        """Import the package now, or raise ValueError saying how to install it."""
        if not self.module:
            return
        try:
            importlib.import_module(self.module)
        except ImportError as error:
            raise ValueError(
                f"{self.name}: the baseline needs {self.package}, which cannot be imported ({error}): "
                "pip install 'elgo[bench]'"
            ) from None

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return not self.module or importlib.util.find_spec(self.module.split(".")[0]) is not None

    @property
    def version(self) -> str:
        """The version of the package; empty for our own."""
        return importlib.metadata.version(self.package) if self.package else ""


def _nearest(instance: Instance, budget: Budget) -> Routes:
    from elgo.search.construct import nearest_neighbour

    return nearest_neighbour(instance)


def _insertion(instance: Instance, budget: Budget) -> Routes:
    from elgo.search.construct import random_insertion

    return random_insertion(instance, budget.seed)


def _savings(instance: Instance, budget: Budget) -> Routes:
    from elgo.search.savings import savings

    return savings(instance)


_BOTH = ("tsp", "cvrp")
_BASELINES = (
    Baseline("nearest", _BOTH, _nearest),
    Baseline("insertion", _BOTH, _insertion),
    Baseline("savings", ("cvrp",), _savings),
    Baseline("pyvrp", _BOTH, external.pyvrp, True, "pyvrp", "pyvrp"),
    Baseline("hgs", ("cvrp",), external.hgs, True, "hygese", "hygese"),
    Baseline("ortools", _BOTH, external.ortools, True, "ortools.constraint_solver.pywrapcp", "ortools"),
    Baseline("vroom", _BOTH, external.vroom, True, "vroom", "pyvroom"),
    Baseline("lkh", ("tsp",), external.lkh, True, "elkai", "elkai"),
    Baseline("fast_tsp", ("tsp",), external.fast_tsp, True, "fast_tsp", "fast_tsp"),
)
BASELINES = {baseline.name: baseline for baseline in _BASELINES}
