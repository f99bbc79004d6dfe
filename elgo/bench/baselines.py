"""Other solvers by name: those of `elgo.solve.external`, which need the extra `elgo[bench]`, and simple heuristics.

What a peer answers is checked and costed by elgo.problem.solution. A time limit is wall-clock from the Instance to the
routes.
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
class Peer:
    """A solver: which problems it takes, where it comes from, and whether it searches until a time limit."""

    name: str
    problems: tuple[str, ...]
    solve: Callable[[Instance, Budget], Routes | None]  # None: it found nothing
    limited: bool
    module: str = ""  # to import; empty: our own
    package: str = ""  # to install
    about: str = ""

    def require(self) -> None:
        """Import the package now, or raise ValueError saying how to install it."""
        if not self.module:
            return
        try:
            importlib.import_module(self.module)
        except ImportError as error:
            raise ValueError(
                f"{self.name}: the peer needs {self.package}, which cannot be imported ({error}): "
                "pip install 'elgo[bench]'"
            ) from None

    @property
    def installed(self) -> bool:
        return not self.module or importlib.util.find_spec(self.module.split(".")[0]) is not None

    @property
    def version(self) -> str:
        """Of its package; that of elgo for our own."""
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
_PEERS = (
    Peer("nearest", _BOTH, _nearest, limited=False, about="nearest neighbour"),
    Peer("insertion", _BOTH, _insertion, limited=False, about="random insertion"),
    Peer("savings", ("cvrp",), _savings, limited=False, about="Clarke and Wright's savings"),
    Peer("pyvrp", _BOTH, external.pyvrp, True, "pyvrp", "pyvrp", "PyVRP"),
    Peer("hgs", ("cvrp",), external.hgs, True, "hygese", "hygese", "HGS-CVRP by hygese; its limit counts CPU time"),
    Peer("ortools", _BOTH, external.ortools, True, "ortools.constraint_solver.pywrapcp", "ortools", "OR-Tools routing"),
    Peer("vroom", _BOTH, external.vroom, True, "vroom", "pyvroom", "VROOM; ends when its search space is explored"),
    Peer("lkh", ("tsp",), external.lkh, True, "elkai", "elkai", "LKH by elkai: whole runs only, at least one"),
    Peer("fast_tsp", ("tsp",), external.fast_tsp, True, "fast_tsp", "fast_tsp", "fast_tsp"),
)
PEERS = {peer.name: peer for peer in _PEERS}
