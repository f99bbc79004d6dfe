"""Cards of the models in the package: NAME.toml beside NAME.safetensors says what the weights are and what they do."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elgo.model.checkpoint import read_weights
from elgo.model.config import PolicyConfig, check_at_least, make_section, section_values
from elgo.problem.errors import ElgoError


@dataclass(frozen=True)
class Check:
    """A small named set and the mean cost that the model reaches on its first instances."""

    set: str  # a group of the set "uniform": TSP100 or CVRP100
    instances: int
    starts: int
    symmetries: int
    cost: float

    def __post_init__(self) -> None:
        check_at_least(self, instances=1, starts=1, symmetries=1, cost=0.0)


@dataclass(frozen=True)
class _Facts:
    """The fields of a card that are not in a section."""

    sha256: str  # of the weights file
    core_hours: float
    data: str  # what it was trained on, briefly
    training: str  # the stages
    recipes: tuple[str, ...]  # configs of `elgo train`, in order
    weaknesses: str = ""


@dataclass(frozen=True)
class Card:
    """What a model of the package is: how it was trained, what it reaches, and how to check that."""

    name: str  # of the files, such as elg-tsp
    facts: _Facts
    gaps: Mapping[str, float]  # percent above the best known cost: set, starts x symmetries -> mean gap
    check: Check
    config: PolicyConfig
    parameters: int
    size: int  # of the weights file, bytes
    found_sha256: str  # of the weights file as it is

    @property
    def network(self) -> str:
        """The network in words."""
        it = self.config
        parts = [f"global policy of {it.layers} layers, width {it.width}"] if it.global_policy else []
        if it.local_policy:
            layers = f" of {it.local_layers} layers" if it.local_layers else ""
            parts.append(f"local policy{layers}, width {it.local_width}, K = {it.neighbours}")
        parts += [f"distance penalty with xi = {it.xi:g}"] * (it.penalty and it.global_policy)
        return "; ".join(parts)


def read_card(file: Path) -> Card:
    """Return the card of a weights file; ValueError naming the field if it is missing or wrong."""
    card = file.with_suffix(".toml")
    if not card.is_file():
        raise ElgoError(f"{card}: {file.name} has no card")
    weights = read_weights(file)
    parameters = sum(array.size for array in weights.tensors.values())
    content = file.read_bytes()
    try:
        values: dict[str, Any] = tomllib.loads(card.read_text(encoding="utf-8"))
        gaps = {str(key): float(value) for key, value in section_values(values.pop("gaps", {}), "gaps").items()}
        check = make_section(Check, values.pop("check", {}), "check")
        facts = make_section(_Facts, values, "card")
    except (TypeError, ValueError) as error:
        raise ElgoError(f"{card}: {error}") from None
    found = hashlib.sha256(content).hexdigest()
    return Card(file.stem, facts, gaps, check, weights.config, parameters, len(content), found)


def read_cards(folder: Path) -> list[Card]:
    """Return the cards of all models in a folder."""
    return [read_card(file) for file in sorted(folder.glob("*.safetensors"))]
