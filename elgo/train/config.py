"""Configs of training runs, read from TOML.

`method` chooses between REINFORCE and imitation; the section of that name holds the method's own options. `base` names
another config, from which a file then holds only the differences. `section.field=value` overrides any field.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from elgo.model.config import PolicyConfig, check_at_least, check_choice, make_section, section_values
from elgo.problem.errors import ElgoError
from elgo.problem.generate import CVRP_DISTRIBUTIONS, POINT_DISTRIBUTIONS
from elgo.train.labelling import parse_sizes

FOLDER = Path(__file__).parent / "configs"


def parse_set(name: str) -> tuple[str, int, int]:
    """Return distribution, N and number of instances of a set's name, such as "uniform-100-200"."""
    parts = name.rsplit("-", 2)
    if len(parts) != 3 or not (parts[1].isdigit() and parts[2].isdigit()):
        raise ElgoError(f"sets has {name!r}; write DISTRIBUTION-N-COUNT")
    return parts[0], int(parts[1]), int(parts[2])


@dataclass(frozen=True)
class DataConfig:
    """Which instances a step takes, and how many."""

    sizes: str = "100"  # N of a batch: "100", one of "50,100,200", or anything in "50-1000"
    distribution: str = "uniform"  # a name of elgo.problem.generate. REINFORCE also takes "set_x,uniform", in turn,
    # and "adaptive": the distributions of the validation sets, drawn by their gaps
    batch: int = 120  # most instances per step, over all processes
    nodes: int = 0  # most nodes per step, so that large instances come in small batches; 0: no limit

    def __post_init__(self) -> None:
        check_at_least(self, batch=1, nodes=0)
        if min(low for low, _ in parse_sizes(self.sizes)) < 2:
            raise ElgoError(f"sizes is {self.sizes!r}, must be at least 2")


@dataclass(frozen=True)
class ReinforceConfig:
    """REINFORCE: rollouts of random instances, sampled by the policy itself."""

    starts: int = 0  # rollouts per instance; 0: one from every node
    confidence_threshold: float = 1.0  # skip states whose likeliest move has at least this probability; 1: none

    def __post_init__(self) -> None:
        check_at_least(self, starts=0)
        if not 0 < self.confidence_threshold <= 1:
            raise ElgoError(
                f"confidence_threshold is {self.confidence_threshold}, must be greater than 0 and at most 1"
            )


@dataclass(frozen=True)
class ImitationConfig:
    """Imitation: near-optimal solutions, as sequences of nodes from random starts in random directions."""

    sequences: int = 0  # per instance; 0: as many as customers
    states: int = 0  # steps of the sequences to learn from, drawn anew for each batch; 0: all
    labels: tuple[str, ...] = ()  # label stores (folders) or xml100_labelled.npz; none: label on the fly
    reuse: int = 2  # steps per batch that is labelled on the fly: all but one of them repeat earlier batches

    def __post_init__(self) -> None:
        check_at_least(self, sequences=0, states=0, reuse=1)


Method = ReinforceConfig | ImitationConfig
METHODS: dict[str, type[Method]] = {"reinforce": ReinforceConfig, "imitate": ImitationConfig}


@dataclass(frozen=True)
class TrainConfig:
    """Duration, stages and optimiser."""

    steps: int = 0  # length of the run; 0: given in minutes, or without end
    minutes: float = 0.0  # of training time; 0: given in steps, or without end
    global_steps: int = 0  # length of the first stage, without the local policy
    optimiser: Literal["adam", "adamw", "muon"] = "adamw"  # adam adds weight decay to the gradient
    lr: float = 1e-4
    adamw_lr: float = 5e-4  # muon: the rate of AdamW, for all parameters but large matrices
    schedule: Literal["constant", "linear"] = "constant"  # linear: the rate falls to 0 at the end of the run
    warmup: int = 0  # steps
    weight_decay: float = 1e-6
    clip_norm: float = 0.0  # 0: gradients are not clipped
    ema: float = 0.0  # decay of the averaged weights that are validated and saved; 0: the weights themselves
    seed: int = 0
    init: str = ""  # weights to start from: a model of the package by name, or FILE.safetensors
    checkpoint_minutes: float = 3.0
    amp: bool = False  # bfloat16 autocast; for GPUs

    def __post_init__(self) -> None:
        check_choice(self, optimiser=("adam", "adamw", "muon"), schedule=("constant", "linear"))
        check_at_least(self, steps=0, minutes=0, global_steps=0, warmup=0, weight_decay=0, clip_norm=0, ema=0, seed=0)
        check_at_least(self, checkpoint_minutes=0)
        if self.steps and self.minutes:
            raise ElgoError(f"steps is {self.steps} and minutes is {self.minutes:g}: set one of them")
        if self.schedule == "linear" and not (self.steps or self.minutes):
            raise ElgoError("schedule is 'linear', which needs steps or minutes")
        for name in ("lr", "adamw_lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise ElgoError(f"{name} is {getattr(self, name)}, must be positive")
        if self.ema >= 1:
            raise ElgoError(f"ema is {self.ema}, must be less than 1")


@dataclass(frozen=True)
class ValidationConfig:
    """Sets of labelled instances, made once with fixed seeds, and which of them decides what weights are best."""

    sets: tuple[str, ...] = ()  # "DISTRIBUTION-N-COUNT", such as "uniform-100-200"
    best_on: str = ""  # the weights with the lowest gap on this set are kept as the best; "": on the first set
    every: int = 0  # steps between validations; 0: 5 * train.checkpoint_minutes
    starts: int = 16  # rollouts per instance

    def __post_init__(self) -> None:
        check_at_least(self, every=0, starts=1)
        for name in self.sets:
            parse_set(name)


@dataclass(frozen=True)
class Config:
    """A whole run."""

    policy: PolicyConfig
    data: DataConfig
    method: Method
    train: TrainConfig
    validation: ValidationConfig = ValidationConfig()

    def __post_init__(self) -> None:
        for name in self.validation.sets:
            self._check_distribution("validation.sets", parse_set(name)[0])
        sets, best_on = self.validation.sets, self.validation.best_on
        if sets and best_on not in ("", *sets):
            raise ElgoError(f"validation.best_on is {best_on!r}, must be one of validation.sets: {', '.join(sets)}")
        distribution = self.data.distribution
        several = distribution == "adaptive" or "," in distribution
        if several and not isinstance(self.method, ReinforceConfig):
            raise ElgoError(f"data.distribution is {distribution!r}, must be one name if method is 'imitate'")
        if distribution != "adaptive":
            for name in distribution.split(","):
                self._check_distribution("data.distribution", name)
        elif len(sets) < 2:
            raise ElgoError("data.distribution is 'adaptive': validation.sets must name the sets it adapts to")
        if self.train.global_steps and not self.policy.global_policy:
            raise ElgoError(f"train.global_steps is {self.train.global_steps}, but policy.global_policy is off")

    def _check_distribution(self, place: str, name: str) -> None:
        known = POINT_DISTRIBUTIONS if self.policy.problem == "tsp" else CVRP_DISTRIBUTIONS
        if name not in known:
            raise ElgoError(f"{place} has {name!r}, which is none of {', '.join(known)}")

    @property
    def method_name(self) -> str:
        """The method as it is written in TOML: "reinforce" or "imitate"."""
        return next(name for name, kind in METHODS.items() if isinstance(self.method, kind))


SECTIONS = {"policy": PolicyConfig, "data": DataConfig, **METHODS, "train": TrainConfig, "validation": ValidationConfig}


def named_configs() -> list[str]:
    """Return the names of the configs that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_config(name: str, overrides: Sequence[str] = ()) -> Config:
    """Return a config of the package by name, or a TOML file by path, with overrides `section.field=value`."""
    try:
        values = _read(_config_file(name, Path()))
        for override in overrides:
            _override(values, override)
        return make_config(values)
    except (ValueError, TypeError) as error:
        raise ElgoError(f"{name}: {error}") from None


def _config_file(name: str, folder: Path) -> Path:
    file = folder / name if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not file.is_file():
        raise ElgoError(f"no such config; there are {', '.join(named_configs())}, or name a .toml file")
    return file


def _read(file: Path, derived: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return the nested values of a TOML file, merged into those of its base."""
    if file in derived:
        raise ElgoError(f"{file} is its own base")
    values = tomllib.loads(file.read_text())
    base = values.pop("base", None)
    if base is None:
        return values
    try:
        merged = _read(_config_file(str(base), file.parent), (*derived, file))
    except ValueError as error:
        raise ElgoError(f"base is {base!r}: {error}") from None
    for name, value in values.items():
        merged[name] = {**section_values(merged.get(name, {}), name), **value} if isinstance(value, dict) else value
    return merged


def _override(values: dict[str, Any], text: str) -> None:
    """Set `section.field=value`, or `method=value`, with a value as in TOML; a bare word is a string."""
    place, equals, value = (part.strip() for part in text.partition("="))
    section, dot, name = place.partition(".")
    if not equals or not (dot or place == "method"):
        raise ElgoError(f"--set {text!r}: write section.field=value")
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        parsed = value
    if dot:
        section_values(values.setdefault(section, {}), section)[name] = parsed
    else:
        values[place] = parsed


def make_config(values: Mapping[str, Any]) -> Config:
    """Return a Config from nested values. Unknown names and wrong types are errors that name section and field."""
    method = values.get("method", "reinforce")
    if method not in METHODS:
        raise ElgoError(f"method is {method!r}, must be one of {', '.join(METHODS)}")
    unknown = set(values) - {"method", *SECTIONS}
    if unknown:
        raise ElgoError(f"unknown section {min(unknown)!r}; there are {', '.join(SECTIONS)}")
    made: dict[str, Any] = {name: make_section(kind, values.get(name, {}), name) for name, kind in SECTIONS.items()}
    return Config(made["policy"], made["data"], made[method], made["train"], made["validation"])


def to_json(config: Config) -> str:
    """Return the whole config as text; `make_config(json.loads(text))` gives it back."""
    values = asdict(config)
    options = values.pop("method")
    return json.dumps({"method": config.method_name, **values, config.method_name: options}, indent=2)
