"""Learning rates and the adaptive scheduler's probabilities, by hand."""

import math

import numpy as np
import pytest

from elgo.train.config import TrainConfig
from elgo.train.loop import rate_factor
from elgo.train.reinforce import distribution_probabilities


def test_constant_rate_with_warmup() -> None:
    config = TrainConfig(steps=100, warmup=4)
    factors = [rate_factor(config, step, step / 100) for step in (0, 1, 3, 4, 99)]
    assert factors == pytest.approx([0.25, 0.5, 1.0, 1.0, 1.0])
    assert rate_factor(TrainConfig(), 10**6, 0.0) == 1.0


def test_linear_falls_to_zero() -> None:
    config = TrainConfig(steps=100, schedule="linear")
    assert [rate_factor(config, 50, done) for done in (0.0, 0.25, 1.0, 1.2)] == [1.0, 0.75, 0.0, 0.0]
    warming = TrainConfig(steps=100, schedule="linear", warmup=10)
    assert rate_factor(warming, 4, 0.04) == pytest.approx(0.5 * 0.96)


def test_probabilities_are_proportional_to_exp_of_the_gap() -> None:
    found = distribution_probabilities([0.01, 0.05, 0.03])
    weight = [math.exp(0.01), math.exp(0.05), math.exp(0.03)]
    np.testing.assert_allclose(found, np.array(weight) / sum(weight))
    np.testing.assert_allclose(distribution_probabilities([0.0] * 3), [1 / 3] * 3)
