"""What a training run is made of, read from TOML. Every field can be overridden as `section.field=value`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from elgo.model.config import PolicyConfig
from elgo.problem.generate import CVRP_DISTRIBUTIONS, POINT_DISTRIBUTIONS
from elgo.train.label_stream import parse_sizes

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
    starts: int = 0  # M rollouts or walks per instance; 0: one from every node
    states: int = 0  # states per walk or rollout to learn from; 0: all
    sure: float = 1.0  # of rollouts, leave out states whose likeliest move has this probability; 1: none
    labels: tuple[str, ...] = ()  # label stores (folders) or xml100_labelled.npz; none: label on the fly
    reuse: int = 2  # of labels made on the fly: steps per newly labelled batch, the others replay earlier ones

    def __post_init__(self) -> None:
        _at_least("data", self, batch=1, nodes=0, starts=0, states=0, reuse=1)
        if not 0 < self.sure <= 1:
            raise ValueError(f"data.sure is {self.sure}, must be above 0 and at most 1")
        if min(low for low, _ in parse_sizes(self.sizes)) < 2:
            raise ValueError(f"data.sizes is {self.sizes!r}, must be at least 2")


@dataclass(frozen=True)
class TrainConfig:
    """How to learn from them."""

    method: Literal["reinforce", "imitate"] = "reinforce"
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
    init: str = ""  # weights to start from: a model of the package by name, or FILE.safetensors
    chunk: int = 4  # instances whose log-probabilities are computed at once (REINFORCE); data.sure needs 1
    checkpoint_minutes: float = 3.0
    amp: bool = False  # bfloat16 autocast; for GPUs

    def __post_init__(self) -> None:
        if self.method not in ("reinforce", "imitate"):
            raise ValueError(f"train.method is {self.method!r}, must be reinforce or imitate")
        if self.optimiser not in ("adam", "adamw"):
            raise ValueError(f"train.optimiser is {self.optimiser!r}, must be adam or adamw")
        if self.schedule not in ("constant", "cosine"):
            raise ValueError(f"train.schedule is {self.schedule!r}, must be constant or cosine")
        if (self.steps > 0) == (self.minutes > 0):
            raise ValueError(f"train.steps is {self.steps} and train.minutes is {self.minutes:g}: set one of them")
        _at_least("train", self, steps=0, minutes=0, global_steps=0, warmup=0, weight_decay=0, clip_norm=0, ema=0)
        _at_least("train", self, seed=0, chunk=1, checkpoint_minutes=0)
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

    def __post_init__(self) -> None:
        _at_least("validation", self, every=0, starts=1)
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
            if len(names) > 1 and self.train.method == "imitate":
                raise ValueError(f"data.distribution is {self.data.distribution!r}, but train.method is 'imitate'")
        elif len(self.validation.sets) < 2:
            raise ValueError("data.distribution is 'adaptive': validation.sets must name the sets it adapts to")
        elif self.train.method == "imitate":
            raise ValueError("data.distribution is 'adaptive', but train.method 'imitate' takes labels as they come")
        if self.train.global_steps and not self.policy.global_policy:
            raise ValueError(f"train.global_steps is {self.train.global_steps}, but policy.global_policy is off")
        if self.data.sure < 1 and self.train.chunk != 1:
            raise ValueError(f"data.sure is {self.data.sure}: it needs train.chunk 1, which is {self.train.chunk}")

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
