"""Baselines by name: the outside solvers of `elgo.solve.external`, which need the extra `elgo[bench]`, and heuristics.

Answers are checked and costed by elgo.problem.solution. A time limit is wall-clock time from instance to routes.
"""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.search.construct import nearest_neighbour, random_insertion
from elgo.search.savings import savings
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
        """Import the package now, or raise ElgoError saying how to install it."""
        try:
            if self.module:
                importlib.import_module(self.module)
        except ImportError as error:
            needs = f"the baseline needs {self.package}, which cannot be imported ({error})"
            raise ElgoError(f"{self.name}: {needs}: pip install 'elgo[bench]'") from None

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return not self.module or importlib.util.find_spec(self.module.split(".")[0]) is not None


_BOTH = ("tsp", "cvrp")
_BASELINES = (
    Baseline("nearest", _BOTH, lambda instance, budget: nearest_neighbour(instance)),
    Baseline("insertion", _BOTH, lambda instance, budget: random_insertion(instance, budget.seed)),
    Baseline("savings", ("cvrp",), lambda instance, budget: savings(instance)),
    Baseline("pyvrp", _BOTH, external.pyvrp, True, "pyvrp", "pyvrp"),
    Baseline("hgs", ("cvrp",), external.hgs, True, "hygese", "hygese"),
    Baseline("ortools", _BOTH, external.ortools, True, "ortools.constraint_solver.pywrapcp", "ortools"),
    Baseline("vroom", _BOTH, external.vroom, True, "vroom", "pyvroom"),
    Baseline("lkh", ("tsp",), external.lkh, True, "elkai", "elkai"),
    Baseline("fast_tsp", ("tsp",), external.fast_tsp, True, "fast_tsp", "fast_tsp"),
)
BASELINES = {baseline.name: baseline for baseline in _BASELINES}
