"""What a training run is made of, read from TOML. Every field can be overridden as `section.field=value`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from elgo.model.policy import PolicyConfig
from elgo.problem.generate import CVRP_DISTRIBUTIONS, POINT_DISTRIBUTIONS
from elgo.train.labels import parse_sizes

FOLDER = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class DataConfig:
    """Where instances come from and how many of them a step takes."""

    sizes: str = "100"  # N of a batch: "100", one of "50,100,200", or anything in "50-1000"
    distribution: str = (
        "uniform"  # a name of elgo.problem.generate, or "adaptive": U/C/M drawn by their validation gaps;
    )
    # of rollouts, it may be several names, "set_x,uniform": in turn
    batch: int = 120  # most instances per step, over all processes
    nodes: int = 0  # most nodes per step, 0 for no such limit: large instances come in small batches
    pool: int = 0  # of rollouts: so many batches in turn (kin of 2,048 instances is remembered); 0: new ones
    starts: int = 0  # M rollouts or walks per instance; 0: one from every node
    branches: float = 0.0  # of steps in which an instance's rollouts are a greedy one up to somewhere, and part there
    states: int = 0  # states per walk or rollout to learn from; 0: all
    sure: float = 1.0  # of rollouts, leave out states whose likeliest move has this probability; 1: none
    labels: tuple[str, ...] = ()  # label stores (folders) or xml100_labelled.npz; none: label on the fly
    dives: bool = False  # CVRP: labels on the fly are the best dives into the plans that the policy sees
    own: bool = False  # every second batch on the fly completes what the policy of train.init has begun
    reuse: int = 2  # of labels made on the fly: steps per newly labelled batch, the others replay earlier ones

    def __post_init__(self) -> None:
        _at_least("data", self, batch=1, nodes=0, pool=0, starts=0, states=0, reuse=1)
        if not 0 < self.sure <= 1:
            raise ValueError(f"data.sure is {self.sure}, must be above 0 and at most 1")
        if not 0 <= self.branches <= 1 or (self.branches and not self.starts):
            raise ValueError(f"data.branches is {self.branches}, must be from 0 to 1, and needs data.starts")
        if min(low for low, _ in parse_sizes(self.sizes)) < 2:
            raise ValueError(f"data.sizes is {self.sizes!r}, must be at least 2")


@dataclass(frozen=True)
class TrainConfig:
    """How to learn from them."""

    method: Literal["reinforce", "imitate", "improve"] = "reinforce"
    best_of: int = 1  # REINFORCE: how many rollouts of an instance share their best one's reward; 1: each has its own
    trace: float = 1.0  # REINFORCE, CVRP: lambda of the moves' own rewards by a critic; 1: whole rollouts have theirs
    steps: int = 0  # stop after so many; 0: stop by the clock
    minutes: float = 0.0  # stop after so much training time; 0: stop by steps
    global_steps: int = 0  # the first stage: that many steps without the local policy
    optimiser: Literal["adam", "adamw"] = "adamw"  # adam takes weight decay as a gradient, adamw beside it
    lr: float = 1e-4
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    weight_decay: float = 1e-6
    clip_norm: float = 0.0  # 0: gradients are not clipped
    ema: float = 0.0  # decay of the averaged weights that are validated and saved; 0: the weights themselves
    seed: int = 0
    init: str = ""  # weights file to start from
    chunk: int = 4  # instances whose log-probabilities are computed at once (REINFORCE); data.sure needs 1
    checkpoint_minutes: float = 3.0
    amp: bool = False  # bfloat16 autocast; for GPUs

    def __post_init__(self) -> None:
        if self.method not in ("reinforce", "imitate", "improve"):
            raise ValueError(f"train.method is {self.method!r}, must be reinforce, imitate or improve")
        if self.optimiser not in ("adam", "adamw"):
            raise ValueError(f"train.optimiser is {self.optimiser!r}, must be adam or adamw")
        if self.schedule not in ("constant", "cosine"):
            raise ValueError(f"train.schedule is {self.schedule!r}, must be constant or cosine")
        if (self.steps > 0) == (self.minutes > 0):
            raise ValueError(f"train.steps is {self.steps} and train.minutes is {self.minutes:g}: set one of them")
        _at_least("train", self, steps=0, minutes=0, global_steps=0, warmup=0, weight_decay=0, clip_norm=0, ema=0)
        _at_least("train", self, best_of=1, seed=0, chunk=1, checkpoint_minutes=0)
        if self.best_of > 1 and self.method != "reinforce":
            raise ValueError(f"train.best_of is {self.best_of}, but train.method is {self.method!r}")
        if not 0 <= self.trace <= 1:
            raise ValueError(f"train.trace is {self.trace}, must be from 0 to 1")
        if self.trace < 1 and (self.method != "reinforce" or self.best_of > 1 or self.chunk > 1):
            raise ValueError(f"train.trace is {self.trace}: it needs REINFORCE with train.best_of 1 and train.chunk 1")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"train.lr is {self.lr}, must be positive")
        if self.ema >= 1:
            raise ValueError(f"train.ema is {self.ema}, must be below 1")


@dataclass(frozen=True)
class ValidationConfig:
    """Sets of labelled instances, made once with fixed seeds. The last one decides which weights are best."""

    sets: tuple[str, ...] = ()  # "DISTRIBUTION-N-COUNT", such as "uniform-100-200"
    every: int = 0  # steps between validations; 0: by time, with every checkpoint's fifth
    starts: int = 16
    patience: int = 0  # stop after so many validations without a better one; 0: never

    def __post_init__(self) -> None:
        _at_least("validation", self, every=0, starts=1, patience=0)
        for name in self.sets:
            parse_set(name)


@dataclass(frozen=True)
class Config:
    """A whole run."""

    policy: PolicyConfig
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=lambda: TrainConfig(steps=1))
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        for name in self.validation.sets:
            self._check_distribution("validation.sets", parse_set(name)[0])
        if self.data.distribution != "adaptive":
            names = self.data.distribution.split(",")
            for name in names:
                self._check_distribution("data.distribution", name)
            if self.data.pool % len(names):
                raise ValueError(f"data.pool is {self.data.pool}, but data.distribution has {len(names)} names in turn")
            if len(names) > 1 and self.train.method == "imitate":
                raise ValueError(f"data.distribution is {self.data.distribution!r}, but train.method is 'imitate'")
        elif len(self.validation.sets) < 2:
            raise ValueError("data.distribution is 'adaptive': validation.sets must name the sets it adapts to")
        elif self.train.method == "imitate":
            raise ValueError("data.distribution is 'adaptive', but train.method 'imitate' takes labels as they come")
        elif self.data.pool:
            raise ValueError(f"data.distribution is 'adaptive', but data.pool is {self.data.pool}: those stay the same")
        if self.train.global_steps and not self.policy.global_policy:
            raise ValueError(f"train.global_steps is {self.train.global_steps}, but policy.global_policy is off")
        if self.data.sure < 1 and self.train.chunk != 1:
            raise ValueError(f"data.sure is {self.data.sure}: it needs train.chunk 1, which is {self.train.chunk}")
        if self.data.branches and self.train.method == "imitate":
            raise ValueError(f"data.branches is {self.data.branches}, but train.method is 'imitate'")
        if self.train.trace < 1 and self.policy.problem != "cvrp":
            raise ValueError(f"train.trace is {self.train.trace}, but policy.problem is {self.policy.problem!r}")
        if self.train.best_of > 1 and 0 < self.data.starts <= self.train.best_of:
            raise ValueError(f"train.best_of is {self.train.best_of}, must be below data.starts, {self.data.starts}")
        on_the_fly = self.train.method == "imitate" and not self.data.labels
        if self.data.dives and not (self.policy.kin and self.policy.problem == "cvrp" and on_the_fly):
            raise ValueError("data.dives is on: it needs policy.kin, a CVRP, and imitation of labels made on the fly")
        if self.data.dives and self.data.own:
            raise ValueError("data.dives and data.own are both on")
        if self.data.own and not self.train.init:
            raise ValueError("data.own is on: it needs the weights of train.init")
        if self.data.own and self.policy.problem == "tsp" and self.data.starts != 1:
            raise ValueError(f"data.own is on: a tour that was begun has one start, data.starts is {self.data.starts}")
        if self.data.own and not on_the_fly:
            raise ValueError("data.own is on: it needs train.method 'imitate' and labels made on the fly")

    def _check_distribution(self, place: str, name: str) -> None:
        known = POINT_DISTRIBUTIONS if self.policy.problem == "tsp" else CVRP_DISTRIBUTIONS
        if name not in known:
            raise ValueError(f"{place} has {name!r}, which is none of {', '.join(known)}")


def _at_least(section: str, config: object, **least: float) -> None:
    for name, low in least.items():
        if not getattr(config, name) >= low:  # not a number is not enough either
            raise ValueError(f"{section}.{name} is {getattr(config, name)}, must be at least {low}")


def parse_set(name: str) -> tuple[str, int, int]:
    """ "uniform-100-200" -> distribution, N, number of instances."""
    parts = name.rsplit("-", 2)
    if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
        raise ValueError(f"validation.sets has {name!r}; write DISTRIBUTION-N-COUNT")
    return parts[0], int(parts[1]), int(parts[2])


def named_configs() -> list[str]:
    """Configs that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_config(name: str, overrides: Sequence[str] = ()) -> Config:
    """A config of the package by name, or a TOML file by path, with overrides `section.field=value`."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise ValueError(f"{name}: no such config; there are {', '.join(named_configs())}, or name a .toml file")
    try:
        values = tomllib.loads(path.read_text())
        for override in overrides:
            _override(values, override)
        return make_config(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None


def _override(values: dict[str, Any], text: str) -> None:
    """Put `section.field=value` into the values; value as in TOML, a bare word being a string."""
    place, equals, value = text.partition("=")
    section, dot, name = place.strip().partition(".")
    if not equals or not dot:
        raise ValueError(f"--set {text!r}: write section.field=value")
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    _table(section, values.setdefault(section, {}))[name] = parsed


def _table(section: str, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ValueError(f"{section} is {values!r}, must be a section")
    return values


def make_config(values: Mapping[str, Any]) -> Config:
    """A Config from nested values; unknown names and wrong types are errors that name them."""
    sections = get_type_hints(Config)
    unknown = set(values) - set(sections)
    if unknown:
        raise ValueError(f"unknown section {min(unknown)!r}; there are {', '.join(sections)}")
    return Config(**{name: _section(name, kind, values.get(name, {})) for name, kind in sections.items()})


def _section(section: str, kind: Any, values: Mapping[str, Any]) -> Any:
    defaults = {f.name: f for f in fields(kind)}
    made: dict[str, Any] = {}
    for name, value in _table(section, values).items():
        if name not in defaults:
            raise ValueError(f"unknown field {section}.{name}; there are {', '.join(defaults)}")
        made[name] = _typed(f"{section}.{name}", str(defaults[name].type), value)
    if kind is TrainConfig and not made.get("steps") and not made.get("minutes"):
        raise ValueError("train.steps or train.minutes must be set")
    return kind(**made)


def _typed(place: str, kind: str, value: Any) -> Any:
    """The value as the field's type: lists become tuples and integers floats; anything else must fit."""
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind.startswith("tuple"):
        value = (value,) if isinstance(value, str) else value
        if not isinstance(value, (list, tuple)) or not all(isinstance(x, str) for x in value):
            raise ValueError(f"{place} is {value!r}, must be a list of strings")
        return tuple(value)
    if kind == "str" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # sizes = 100
    expected = {"int": int, "float": float, "bool": bool}.get(kind, str)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise ValueError(f"{place} is {value!r}, must be {expected.__name__}")
    return value


def to_json(config: Config) -> str:
    """The whole config as text; `make_config(json.loads(text))` gives it back."""
    return json.dumps(asdict(config), indent=2)
