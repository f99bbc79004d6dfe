"""Validation: the policy's gaps on labelled instances that we generate ourselves, never on the test sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from elg.decode import DecodeConfig, decode
from elg.geometry import normalise
from elg.policy import Policy
from elg.problems import PROBLEMS, ProblemName, Task, make_batch
from elg.train.config import parse_set
from elg.train.labels import Labelled, LabelStore, Stream, make_labels


class Gaps(NamedTuple):
    """Mean percent above the labels."""

    best: float  # the best of the starts
    single: float  # the mean over the starts: how good the policy itself is


def validation_set(folder: Path, problem: ProblemName, name: str) -> list[Labelled]:
    """The set "DISTRIBUTION-N-COUNT" from its store in the folder, made there with fixed seeds when it is missing."""
    distribution, size, count = parse_set(name)
    store = LabelStore(folder / f"val-{problem}-{distribution}-{size}")
    stream = Stream(problem, ((size, size),), distribution, seconds=label_seconds(problem, size), validation=True)
    if len(store) < count:
        make_labels(store, stream, count=count)
    return store.load()[:count]


def label_seconds(problem: ProblemName, size: int) -> float:
    """Time for one label of a validation set."""
    return (0.5 if problem == "tsp" else 3.0) * max(1.0, size / 100)


def gaps(policy: Policy, labels: Sequence[Labelled], starts: int, config: DecodeConfig) -> Gaps:
    """Greedy, no symmetries, from `starts` nodes spread evenly over each instance's list of nodes."""
    tasks = [Task(normalise(label.sample.coords), label.sample.demand, label.sample.capacity) for label in labels]
    first = [_spread(task, starts) for task in tasks]
    best, single = [], []
    problem = PROBLEMS[policy.config.problem]
    for task, label, actions in zip(tasks, labels, decode(policy, tasks, first, config), strict=True):
        scale = float(np.ptp(label.sample.coords, axis=0).max())  # what normalise() divided by
        length = problem.length(make_batch([task]), torch.from_numpy(actions).long()[None])[0].numpy() * scale
        best.append(length.min() / label.cost - 1)
        single.append(length.mean() / label.cost - 1)
    return Gaps(100 * float(np.mean(best)), 100 * float(np.mean(single)))


def _spread(task: Task, count: int) -> np.ndarray:
    nodes = np.arange(0 if task.demand is None else 1, len(task.coords))
    return nodes[np.linspace(0, len(nodes) - 1, min(count, len(nodes))).round().astype(int)]
