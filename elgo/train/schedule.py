"""Schedules: the learning rate, and the distribution of the next batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elgo.train.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, done: float) -> float:
    """Return the learning rate at a step, given the fraction of the run that is over."""
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.schedule == "constant":
        return config.lr * warm
    return config.lr * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def distribution_probabilities(gaps: Sequence[float]) -> NDArray[np.float64]:
    """Return the probabilities of ELG*'s adaptive scheduler, proportional to exp(validation gap as a fraction)."""
    weight = np.exp(np.asarray(gaps, dtype=float))
    return weight / weight.sum()
