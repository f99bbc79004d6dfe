"""What `solve` returns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from elgo.problem.instance import Instance
from elgo.problem.solution import Solution, gap


class Improvement(NamedTuple):
    """A better solution: when it was found, what it costs, and what found it."""

    seconds: float  # since the call, without loading
    cost: float
    source: str  # fallback, warm start, exact, savings, policy, search or fast_tsp


def shown_source(source: str) -> str:
    """Return where a solution comes from, as people are told: fast_tsp is search, too."""
    return "search" if source == "fast_tsp" else source


@dataclass(frozen=True)
class Timings:
    """Seconds of each stage."""

    load: float  # kernels, which the first call ever compiles, and models; does not count against the time limit
    decode: float  # the policy's rollouts
    search: float
    total: float  # of all but loading: what the time limit limits


@dataclass(frozen=True)
class Result:
    """The best solution found, and how it was found."""

    solution: Solution
    seconds: Timings
    seed: int
    starts: int  # start nodes of the policy's rollouts; 0 without a policy
    symmetries: int
    history: tuple[Improvement, ...] = ()
    interrupted: bool = False  # by Ctrl-C
    warnings: tuple[str, ...] = ()  # stages that were cut short, options without effect

    @property
    def instance(self) -> Instance:
        """The instance that was solved."""
        return self.solution.instance

    @property
    def source(self) -> str:
        """Where the solution comes from: fallback, warm start, exact, savings, policy or search."""
        return shown_source(self.history[-1].source)

    @property
    def cost(self) -> float:
        """The cost of the solution."""
        return self.solution.cost

    @property
    def gap(self) -> float | None:
        """Percent above the best known cost, if there is one."""
        return gap(self.cost, self.instance.best_known)


class CallbackError(RuntimeError):
    """A function of the caller, such as `on_improvement` or `stop`, has raised an exception: it is the __cause__.

    `result` is the result with the best solution so far; None if there was none yet.
    """

    result: Result | None = None

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name, error)  # from which another process can make it again

    def __str__(self) -> str:
        kept = "" if self.result is None else "; the best solution so far is in `result` of this exception"
        return "{} has raised {!r}".format(*self.args) + kept


def format_seconds(seconds: float) -> str:
    """Return "45 s", "12 min" or "3.4 h"."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first row as the header, columns aligned, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([row[0].ljust(len(first)), *others]).rstrip())
    return [lines[0], "-" * (sum(widths) + 2 * (len(widths) - 1)), *lines[1:]]
