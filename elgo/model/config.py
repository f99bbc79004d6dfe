"""What decides the network, and how sections of configs are read and checked. Needs no torch."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, TypeVar

from elgo.problem.augment import NORMALISATIONS, Normalisation
from elgo.problem.errors import ElgoError
from elgo.problem.task import PROBLEMS, ProblemName

NEIGHBOURS: dict[ProblemName, int] = {"tsp": 30, "cvrp": 40}
# Far beyond any use: what a config in a foreign file can make a network cost before its tensors are looked at.
MOST = {"neighbours": 1000, "layers": 100, "local_layers": 100, "width": 4096, "hidden": 2**15, "local_width": 1024}

T = TypeVar("T")


def check_at_least(config: object, **least: float) -> None:
    """Raise ElgoError that names the first field that is less than its lowest value."""
    for name, low in least.items():
        if not getattr(config, name) >= low:  # also true of NaN
            raise ElgoError(f"{name} is {getattr(config, name)}, must be at least {low}")


def check_at_most(config: object, **most: float) -> None:
    """Raise ElgoError that names the first field that is more than its highest value."""
    for name, high in most.items():
        if not getattr(config, name) <= high:
            raise ElgoError(f"{name} is {getattr(config, name)}, must be at most {high}")


def check_choice(config: object, **choices: tuple[str, ...]) -> None:
    """Raise ElgoError that names the first field that is none of its choices."""
    for name, known in choices.items():
        if getattr(config, name) not in known:
            raise ElgoError(f"{name} is {getattr(config, name)!r}, must be one of {', '.join(known)}")


@dataclass(frozen=True)
class PolicyConfig:
    """Everything that decides the network; the paper's ablations are settings of these fields."""

    problem: ProblemName
    neighbours: int = 0  # K; 0 takes the paper's value for the problem
    # global policy (POMO)
    global_policy: bool = True
    width: int = 128
    heads: int = 8
    layers: int = 6
    hidden: int = 512
    # ensemble
    penalty: bool = True  # the normalised distance penalty
    xi: float = 1.0  # the penalty outside the neighbourhood
    clip: float = 50.0  # C
    # local policy
    local_policy: bool = True  # switched off in the first stage of training; its parameters always exist
    local_width: int = 32
    local_heads: int = 4
    local_layers: int = 0  # self-attention layers over the neighbours (the paper's local-only ablation has 3)
    positional: bool = True  # rank encoding of the neighbours
    coordinates: Literal["polar", "euclidean"] = "polar"
    # Of coordinates: see problem.augment. "official" also decides the starts and what is added to radii.
    normalisation: Normalisation = "fit"

    def __post_init__(self) -> None:
        check_choice(self, problem=PROBLEMS)
        if self.neighbours == 0:
            object.__setattr__(self, "neighbours", NEIGHBOURS[self.problem])
        check_at_least(self, neighbours=1, width=1, heads=1, layers=1, hidden=1, local_width=1, local_heads=1)
        check_at_least(self, local_layers=0)
        check_at_most(self, **MOST)
        if self.width % self.heads or self.local_width % self.local_heads:
            raise ElgoError("width must be a multiple of heads, and local_width of local_heads")
        check_choice(self, coordinates=("polar", "euclidean"), normalisation=NORMALISATIONS)
        if not (1 <= self.xi <= 1e6 and 0 < self.clip <= 1e6):
            raise ElgoError(
                f"xi is {self.xi} and clip is {self.clip}: xi must be at least 1, clip positive, both at most 1e6"
            )
        if not (self.global_policy or self.local_policy):
            raise ElgoError("global_policy and local_policy are both off")

    @property
    def has_depot(self) -> bool:
        return self.problem == "cvrp"

    @property
    def compiled(self) -> bool:
        """Whether the compiled path knows the network: the local policy has no layers. Torch knows them all."""
        return self.local_layers == 0

    @property
    def radius_slack(self) -> float:
        """What the published code adds to max rho before the local policy's features are divided by it; 0 in ours."""
        return 1e-6 if self.normalisation == "official" else 0.0

    @property
    def penalty_slack(self) -> float:
        """The same for the distance penalty: the published code has it in TSP alone."""
        return 0.0 if self.has_depot else self.radius_slack


def section_values(values: Any, section: str) -> dict[str, Any]:
    """Return the values of a section; ElgoError if it is something else."""
    if not isinstance(values, dict):
        raise ElgoError(f"{section} is {values!r}, must be a section")
    return values


def make_section(kind: type[T], values: Any, section: str) -> T:
    """Return a config class from the values of its section; errors name section and field."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    made: dict[str, Any] = {}
    for name, value in section_values(values, section).items():
        if name not in known:
            raise ElgoError(f"unknown field {section}.{name}; there are {', '.join(known)}")
        made[name] = _typed(f"{section}.{name}", str(known[name].type), value)
    for name, field in known.items():
        if field.default is MISSING and name not in made:
            raise ElgoError(f"{section}.{name} is missing")
    try:
        return kind(**made)
    except ValueError as error:
        raise ElgoError(f"{section}.{error}") from None


def _typed(place: str, kind: str, value: Any) -> Any:
    """Return the value as the field's type: lists become tuples, integers floats or text; anything else must fit."""
    if kind.startswith("tuple"):
        value = (value,) if isinstance(value, str) else value
        if not isinstance(value, (list, tuple)) or not all(isinstance(x, str) for x in value):
            raise ElgoError(f"{place} is {value!r}, must be a list of strings")
        return tuple(value)
    expected = {"int": int, "float": float, "bool": bool}.get(kind, str)
    if type(value) is int and expected in (float, str):  # lr = 1, sizes = 100
        return expected(value)
    if type(value) is not expected:
        raise ElgoError(f"{place} is {value!r}, must be {expected.__name__}")
    return value
