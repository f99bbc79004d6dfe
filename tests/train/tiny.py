"""Networks, labels and configs so small that a run takes a second. The labels need no solver."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.problem.generate import cvrp, generate
from elgo.problem.task import Task
from elgo.train.labelling import Labelled, label
from elgo.train.labels import LabelStore, claim
from elgo.train.validate import validation_stream

NETWORK = {"width": 16, "heads": 2, "layers": 1, "hidden": 16, "local_width": 8, "local_heads": 2}
OVERRIDES = [f"policy.{name}={value}" for name, value in NETWORK.items()]


def gradients(policy: Policy, loss: Tensor) -> dict[str, Tensor]:
    """The loss's gradient for each parameter that it uses."""
    policy.zero_grad(set_to_none=True)
    loss.backward()
    return {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}


def assert_same_gradients(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal up to float32: parameters by the largest entry, since many cancel almost to zero."""
    assert set(found) == set(expected)
    largest = max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        error = float((found[name] - value).abs().max())
        assert error < 5e-5 * largest, f"the gradient of {name} is off by {error}, the largest is {largest}"


def simple_label(sample: Task) -> Labelled:
    """Nodes in order of their number; a route ends when the next customer does not fit."""
    if sample.demand is None:
        return label(sample, [range(sample.size)])
    routes: list[list[int]] = [[]]
    left = sample.capacity
    for node in range(1, sample.size):
        if sample.demand[node] > left:
            routes.append([])
            left = sample.capacity
        routes[-1].append(node)
        left -= sample.demand[node]
    return label(sample, routes)


def simple_labels(problem: str, sizes: Sequence[int], seed: int = 0, distribution: str = "uniform") -> list[Labelled]:
    rng = np.random.default_rng(seed)
    return [simple_label(generate(rng, problem, size, distribution)) for size in sizes]


def fill(folder: Path, labels: Sequence[Labelled]) -> Path:
    """A store with these labels."""
    LabelStore(folder).add(labels)
    return folder


def fill_validation(data: Path, problem: str, distributions: Sequence[str] = ("uniform",), count: int = 3) -> Path:
    """Sets DISTRIBUTION-10-COUNT, as if they had been made earlier."""
    for distribution in distributions:
        folder = data / f"val-{problem}-{distribution}-10"
        claim(LabelStore(folder), validation_stream(problem, distribution, 10))
        fill(folder, simple_labels(problem, [10] * count, seed=5, distribution=distribution))
    return data


SQUARE = Task(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))


def set_x_sample(n: int, seed: int = 0) -> Task:
    return cvrp(np.random.default_rng(seed), n, "set_x")


def trivial_label(sample: Task) -> Labelled:
    """A label without a solver: nodes in order, or one customer per route."""
    nodes = range(sample.size)
    return label(sample, [nodes] if sample.demand is None else [[i] for i in nodes[1:]])


def assert_same_label(a: Labelled, b: Labelled) -> None:
    assert np.array_equal(a.sample.coords, b.sample.coords)
    assert np.array_equal(a.tour, b.tour)
    assert a.cost == b.cost
    assert (a.sample.demand is None) == (b.sample.demand is None)
    assert a.sample.capacity == b.sample.capacity
    if a.sample.demand is not None and b.sample.demand is not None:
        assert np.array_equal(a.sample.demand, b.sample.demand)
        assert b.sample.demand.dtype == np.int64
