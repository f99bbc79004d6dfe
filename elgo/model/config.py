"""What decides the network. Needs no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from elgo.problem.task import PROBLEMS, ProblemName

NEIGHBOURS: dict[ProblemName, int] = {"tsp": 30, "cvrp": 40}


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

    def __post_init__(self) -> None:
        if self.problem not in PROBLEMS:
            raise ValueError(f"problem is {self.problem!r}, must be one of {', '.join(PROBLEMS)}")
        if self.neighbours == 0:
            object.__setattr__(self, "neighbours", NEIGHBOURS[self.problem])
        for field in ("neighbours", "width", "heads", "layers", "hidden", "local_width", "local_heads"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}, must be at least 1")
        if self.width % self.heads or self.local_width % self.local_heads:
            raise ValueError("width must be a multiple of heads, and local_width of local_heads")
        if self.coordinates not in ("polar", "euclidean"):
            raise ValueError(f"coordinates is {self.coordinates!r}, must be polar or euclidean")
        if self.local_layers < 0:
            raise ValueError(f"local_layers is {self.local_layers}, must not be negative")
        if not (1 <= self.xi < math.inf and 0 < self.clip < math.inf):
            raise ValueError(f"xi is {self.xi} and clip is {self.clip}: xi must be at least 1, clip positive")
        if not (self.global_policy or self.local_policy):
            raise ValueError("global_policy and local_policy are both off")

    @property
    def has_depot(self) -> bool:
        return self.problem == "cvrp"
