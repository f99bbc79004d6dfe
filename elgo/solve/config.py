"""Options of `solve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elgo.model.device import check_device
from elgo.problem.augment import SYMMETRIES
from elgo.problem.cores import available_cores
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution
from elgo.solve.stop import MaxIterations, MaxRuntime, StopCriterion, check_seconds

if TYPE_CHECKING:
    from elgo.model.checkpoint import Model

LEAST_SECONDS, MOST_SECONDS = 5.0, 60.0  # default time limit of the smallest and of the largest instances
SECONDS_PER_NODE = 0.01  # default time limit in between

MOST_THREADS, MOST_VEHICLES = 1024, 10**9

ModelName = str | Path  # of a model in the package, or FILE.safetensors


@dataclass(frozen=True)
class SolveConfig:
    """What to spend on an instance, and what to start from.

    By default the search starts from a classical construction, and no model is loaded. `start` is a model whose best
    rollout is the start instead; `policy_only` takes the best rollout of `model` and does not search. A model is a name
    such as "elg", FILE.safetensors, or what load_weights or load_model return.
    """

    time_limit: float | None = None  # seconds for the whole call; default: 5 to 60, by the size
    start: ModelName | Model | None = None  # model to start the search from
    policy_only: bool = False  # no search, and no time limit
    model: ModelName | Model | None = None  # model of policy_only; default: "elg"
    starts: int | None = (
        None  # nodes that rollouts start at; default: all up to 1,000, then 100; 16 above 10,000, and for `start`
    )
    symmetries: int | None = None  # under which rollouts are made; default: 8; above 10,000 nodes, and for `start`, 1
    seed: int = 0  # of all randomness
    threads: int | None = None  # default: all cores that this process may use
    vehicles: int | None = None  # most routes of a CVRP
    memory_gb: float = 4.0  # what the rollouts may take
    device: str = "auto"  # of a model by name: cpu, cuda, cuda:NUMBER, or auto: a GPU if there is one
    stop: StopCriterion | None = None  # ends the search earlier; MaxIterations replaces the default time limit

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            check_seconds("time_limit", self.time_limit)
        for name in ("starts", "threads", "vehicles"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ElgoError(f"{name} is {value}, must be at least 1")
        for name, most in (("threads", MOST_THREADS), ("vehicles", MOST_VEHICLES)):
            value = getattr(self, name)
            if value is not None and value > most:
                raise ElgoError(f"{name} is {value}, must be at most {most}")
        if self.symmetries is not None and not 1 <= self.symmetries <= SYMMETRIES:
            raise ElgoError(f"symmetries is {self.symmetries}, must be 1..{SYMMETRIES}")
        if self.seed < 0:
            raise ElgoError(f"seed is {self.seed}, must not be negative")
        if self.memory_gb <= 0:
            raise ElgoError(f"memory_gb is {self.memory_gb}, must be positive")
        check_device(self.device)
        self._check_combination()

    def _check_combination(self) -> None:
        """Raise ElgoError for a field that has no effect beside the others."""
        if self.policy_only and self.time_limit is not None:
            raise ElgoError(f"time_limit is {self.time_limit:g}, but policy_only has no time limit")
        if self.policy_only and self.stop is not None:
            raise ElgoError("stop is given, but policy_only does not search")
        if self.policy_only and self.start is not None:
            text = _text(self.start)
            raise ElgoError(f"start is {text}, but policy_only does not search; name the model with model")
        if self.model is not None and not self.policy_only:
            text = _text(self.model)
            raise ElgoError(f"model is {text}, but it needs policy_only; start names a model to start from")
        for name in ("starts", "symmetries"):
            value = getattr(self, name)
            if value is not None and self.policy is None:
                raise ElgoError(f"{name} is {value}, but it needs a policy: start or policy_only")
        if self.device != "auto" and self.policy is None:
            raise ElgoError(f"device is {self.device}, but it needs a policy: start or policy_only")

    @property
    def policy(self) -> ModelName | Model | None:
        """The model whose rollouts are made, if any."""
        if not self.policy_only:
            return self.start
        return "elg" if self.model is None else self.model

    @property
    def workers(self) -> int:
        """The number of threads: as given, or one per core that this process may use."""
        return self.threads or available_cores()

    def limit(self, instance: Instance) -> float:
        """Return the seconds for this instance: as given, or by its size; infinite for a fixed number of iterations."""
        given = [] if self.time_limit is None else [self.time_limit]
        if isinstance(self.stop, MaxRuntime):
            given.append(self.stop.seconds)
        elif isinstance(self.stop, MaxIterations):
            given.append(float("inf"))
        return min(given) if given else min(MOST_SECONDS, max(LEAST_SECONDS, SECONDS_PER_NODE * instance.size))


def check_warm_start(solution: Solution, instance: Instance, config: SolveConfig) -> Solution:
    """Return the solution as one of this very instance; ElgoError if the search cannot start from it."""
    for name in ("start", "policy_only"):
        if getattr(config, name):
            raise ElgoError(f"warm_start and {name} are both given; the search has one start")
    if solution.instance is not instance:
        solution = Solution(instance, solution.routes)
    if solution.violations:
        raise ElgoError(f"warm_start is not feasible: {solution.violations[0]}")
    if config.vehicles is not None and len(solution.routes) > config.vehicles:
        raise ElgoError(f"warm_start has {len(solution.routes)} routes, vehicles is {config.vehicles}")
    return solution


def _text(model: ModelName | Model) -> str:
    """Return a model's name in quotes, or that of its class: the text of a network has many lines."""
    return f"'{model}'" if isinstance(model, str | Path) else type(model).__name__
