"""When a search ends: after a time, after iterations, without improvement, or when a function of yours says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from elgo.problem.errors import ElgoError


class Progress(NamedTuple):
    """The state of a search, which `stop` is called with, several times a second."""

    seconds: float  # since the call, without loading
    iterations: int  # of each thread
    cost: float  # of the best solution so far
    unimproved: float  # seconds since it was found


StopCriterion = Callable[[Progress], bool]


@dataclass(frozen=True)
class MaxRuntime:
    """Stop after so many seconds: the same as `time_limit`."""

    seconds: float

    def __post_init__(self) -> None:
        check_seconds("MaxRuntime", self.seconds)

    def __call__(self, progress: Progress) -> bool:
        """Return True if the time is over."""
        return progress.seconds >= self.seconds


@dataclass(frozen=True)
class MaxIterations:
    """Stop after so many iterations of each thread: of SISR (CVRP, asymmetric TSP) or perturbations of a tour (TSP).

    There is no time limit then unless one is given, no stage reads the clock, and fast_tsp is left out, so that the
    same seed and number of threads give the same solution.
    """

    iterations: int

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise ElgoError(f"MaxIterations is {self.iterations}, must not be negative")

    def __call__(self, progress: Progress) -> bool:
        """Return True if all iterations are done."""
        return progress.iterations >= self.iterations


@dataclass(frozen=True)
class NoImprovement:
    """Stop when there was no better solution for so many seconds, or at the time limit."""

    seconds: float

    def __post_init__(self) -> None:
        check_seconds("NoImprovement", self.seconds)

    def __call__(self, progress: Progress) -> bool:
        """Return True if the last improvement was too long ago."""
        return progress.unimproved >= self.seconds


def check_seconds(name: str, seconds: float) -> None:
    """Raise ElgoError unless this is a finite time above 0."""
    if not 0 < seconds < float("inf"):
        raise ElgoError(f"{name} is {seconds}, must be a number of seconds above 0")
