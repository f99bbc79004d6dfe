"""Learning rates and the adaptive scheduler's probabilities, by hand."""

import math

import numpy as np
import pytest

from elgo.train.config import TrainConfig
from elgo.train.loop import learning_rate
from elgo.train.reinforce import distribution_probabilities


def test_constant_rate_with_warmup() -> None:
    config = TrainConfig(steps=100, lr=0.2, warmup=4)
    rates = [learning_rate(config, step, step / 100) for step in (0, 1, 3, 4, 99)]
    assert rates == pytest.approx([0.05, 0.1, 0.2, 0.2, 0.2])
    assert learning_rate(TrainConfig(steps=100, lr=0.2), 0, 0.0) == 0.2


def test_cosine_falls_to_a_hundredth() -> None:
    config = TrainConfig(steps=100, lr=0.2, schedule="cosine")
    rates = [learning_rate(config, 50, progress) for progress in (0.0, 0.5, 1.0, 1.2)]
    assert rates == pytest.approx([0.2, 0.2 * (0.01 + 0.99 / 2), 0.002, 0.002])
    third = 0.2 * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi / 3)))
    assert learning_rate(config, 33, 1 / 3) == pytest.approx(third)
    warming = TrainConfig(steps=100, lr=0.2, schedule="cosine", warmup=10)
    assert learning_rate(warming, 4, 0.0) == pytest.approx(0.1)


def test_probabilities_are_proportional_to_exp_of_the_gap() -> None:
    found = distribution_probabilities([0.01, 0.05, 0.03])
    weight = [math.exp(0.01), math.exp(0.05), math.exp(0.03)]
    np.testing.assert_allclose(found, np.array(weight) / sum(weight))
    np.testing.assert_allclose(distribution_probabilities([0.0] * 3), [1 / 3] * 3)
