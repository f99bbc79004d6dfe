"""Bodies of requests and responses. Unknown keys are refused, and nothing is converted silently."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from pydantic.config import JsonDict

MOST_GENERATED = 10_000  # customers

State = Literal["waiting", "running", "finished", "stopped", "failed"]
Problem = Literal["tsp", "cvrp"]
Routes = list[list[int]]
Name = Annotated[str, Field(max_length=200)]
T = TypeVar("T")
Many = Annotated[list[T], Field(fail_fast=True)]  # the first error is reported: millions of them would fill the memory

_EXAMPLE: JsonDict = {
    "instance": {
        "name": "four customers",
        "coordinates": [[0, 0], [0, 2], [2, 2], [2, 0], [1, 3]],
        "demand": [0, 1, 1, 1, 1],
        "capacity": 2,
    },
    "options": {"seconds": 0.1},
}


class Body(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


class InstanceBody(Body):
    """A TSP, or a CVRP if it has demands: then node 0 is the depot."""

    name: Name | None = Field(default=None, min_length=1)
    coordinates: Many[tuple[FiniteFloat, FiniteFloat]] | None = Field(
        default=None,
        description="x, y; or latitude, longitude if `latlon`. Beside a matrix they are only drawn.",
    )
    latlon: bool = Field(default=False, description="Costs are metres on the earth.")
    matrix: Many[Many[FiniteFloat]] | None = Field(default=None, description="Costs, row = from; may be asymmetric.")
    demand: Many[FiniteFloat] | None = Field(default=None, description="Of every node; 0 for the depot.")
    capacity: FiniteFloat | None = Field(default=None, description="Of each vehicle.")
    vehicles: int | None = Field(default=None, ge=1, le=1_000_000, description="Most routes.")
    names: Many[Name] | None = Field(default=None, description="Of every node.")
    open: bool = Field(default=False, description="Routes end at their last stop: the way back costs nothing.")
    first: int | None = Field(default=None, ge=0, description="Node at which the tour of a TSP begins.")
    last: int | None = Field(default=None, ge=0, description="Node at which it ends, from where it does not return.")


class FileBody(Body):
    """A problem file, with what it may leave open; `first` and `last` are ids, names or numbers of its stops."""

    name: Name
    text: str
    capacity: FiniteFloat | None = None
    vehicles: int | None = Field(default=None, ge=1, le=1_000_000)
    depot: str | None = None
    open: bool = False
    first: str | None = None
    last: str | None = None


class Options(Body):
    """What to spend on an instance, and what to start from."""

    seconds: FiniteFloat | None = Field(default=None, gt=0, description="Time for the search; default: 5.")
    seed: int = Field(default=0, ge=0, lt=2**32)
    start: Name | None = Field(default=None, description="Model to start the search from, such as elg.")
    policy_only: bool = Field(default=False, description="The best rollout of a model: no search, no time limit.")
    model: Name | None = Field(default=None, description="Model of `policy_only`; default: elg.")
    warm_start: Many[Many[int]] | None = Field(
        default=None, description="Routes to start the search from, as in a solution."
    )


class JobBody(Body):
    """An instance and how to solve it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    instance: InstanceBody
    options: Options = Options()


class StoredRequest(Body):
    """A request as the store keeps it: it has an instance or a file."""

    instance: InstanceBody | None = None
    file: FileBody | None = None
    options: Options


class GenerateBody(Body):
    """A random instance."""

    problem: Problem = "cvrp"
    size: int = Field(default=100, ge=2, le=MOST_GENERATED, description="Customers.")
    distribution: Name = "uniform"
    seed: int = Field(default=0, ge=0, lt=2**32)


class GeneratedView(BaseModel):
    """A random instance as POST /jobs takes it."""

    instance: InstanceBody


class ErrorView(BaseModel):
    """What is wrong, in one line, and the field that it is about."""

    error: str
    field: str | None = None


class CreatedView(BaseModel):
    """A job that was accepted."""

    id: str


class SummaryView(BaseModel):
    """A job in the list of jobs."""

    id: str
    name: str
    problem: Problem
    nodes: int
    state: State
    cost: float | None
    created: str
    started: str | None
    finished: str | None
    seconds: float | None


class InstanceView(BaseModel):
    """What a page needs to draw an instance."""

    coordinates: list[tuple[float, float]] | None
    latlon: bool
    names: list[str] | None
    demand: list[float] | None
    capacity: float | None
    vehicles: int | None
    best_known: float | None
    open: bool = Field(description="Routes end at their last stop.")
    first: int | None
    last: int | None


class SolutionView(BaseModel):
    """A solution; routes are nodes from 0, without the depot."""

    cost: float
    gap: float | None = Field(description="Percent above the best known cost.")
    routes: Routes
    loads: list[float] | None
    lengths: list[float]
    source: str = Field(description="fallback, warm start, exact, savings, policy or search")


class JobView(SummaryView):
    """A job with the best solution so far; `history` has seconds, cost and source of every improvement."""

    error: str | None
    options: Options
    instance: InstanceView
    solution: SolutionView | None
    history: list[tuple[float, float, str]]
    warnings: list[str]
    unit: str = Field(description="Of cost and lengths: m, km or empty.")


class CandidateView(BaseModel):
    """A node that the local policy sees; the scores add up to what tanh and softmax turn into the probability."""

    node: int
    global_: float = Field(
        serialization_alias="global", description="Score of the global policy, less the penalty of distance."
    )
    local: float = Field(description="Score of the local policy.")
    probability: float


class StepView(BaseModel):
    """A step of a construction; the load is that of the vehicle at the current node."""

    current: int
    chosen: int
    load: float | None
    candidates: list[CandidateView]


class TraceView(BaseModel):
    """A greedy construction by a policy."""

    model: str
    steps: list[StepView]


class HealthView(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str
    workers: int
    waiting: int
    token: bool  # everything else wants one
