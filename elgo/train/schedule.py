"""What changes while training: the learning rate, and which distribution the next batch comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elgo.train.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, progress: float) -> float:
    """The rate at a step, `progress` being the share of the run that is over (of its steps or of its time)."""
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.schedule == "constant":
        return config.lr * warm
    return config.lr * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def distribution_probabilities(gaps: Sequence[float]) -> NDArray[np.float64]:
    """ELG*'s adaptive scheduler: each distribution's share is proportional to exp(its validation gap as a fraction)."""
    weight = np.exp(np.asarray(gaps, dtype=float))
    return weight / weight.sum()
