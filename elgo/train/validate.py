"""Validation: the policy's gaps on labelled instances that we generate ourselves, never on the test sets.

The sets of the recipes are files of the package, so that they stay the same when the generators change. A file is one
shard of a label store, PROBLEM-DISTRIBUTION-N-COUNT.npz, listed in SHA256SUMS.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import all_starts
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.problem.augment import normalise_task
from elgo.problem.errors import ElgoError
from elgo.problem.task import ProblemName
from elgo.train.config import parse_set
from elgo.train.labelling import Labelled, LabelStream, cvrp_solver, require
from elgo.train.labels import LabelStore, claim, make_labels, read_shard

SHIPPED = Path(__file__).parent / "validation"


class ValidationGaps(NamedTuple):
    """Percent above the label."""

    best: float  # of the best rollout
    single: float  # of the mean over the rollouts: what a single one has


def validation_set(
    folder: Path, problem: ProblemName, name: str, report: Callable[[str], None] = lambda line: None
) -> list[Labelled]:
    """Return the set "DISTRIBUTION-N-COUNT" from the package, or else from its store in the folder.

    A missing store is made, with a fixed seed.
    """
    distribution, size, count = parse_set(name)
    shipped = _shipped_set(f"{problem}-{distribution}-{size}", count)
    if shipped is not None:
        return shipped
    store = LabelStore(folder / f"val-{problem}-{distribution}-{size}")
    stream = validation_stream(problem, distribution, size)
    claim(store, stream)
    if len(store) < count and make_labels(store, stream, count=count, report=report) < count:
        raise KeyboardInterrupt  # after which make_labels has ended in order
    return store.load()[:count]


def require_solvers(folder: Path, problem: ProblemName, names: Sequence[str]) -> None:
    """Raise ImportError if a package is missing that `validation_set` will need for one of these sets."""
    for name in names:
        distribution, size, count = parse_set(name)
        made = LabelStore(folder / f"val-{problem}-{distribution}-{size}")
        if _shipped_set(f"{problem}-{distribution}-{size}", count) is None and len(made) < count:
            require("fast_tsp" if problem == "tsp" else cvrp_solver(size))


def _shipped_set(prefix: str, count: int) -> list[Labelled] | None:
    """Return the first `count` labels of the shipped file PREFIX-COUNT.npz, None if there is none with so many."""
    for line in (SHIPPED / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split()
        held_prefix, _, held = name.removesuffix(".npz").rpartition("-")
        if held_prefix == prefix and int(held) >= count:
            found = hashlib.sha256((SHIPPED / name).read_bytes()).hexdigest()
            if found != expected:
                raise ElgoError(f"{SHIPPED / name}: its SHA-256 is {found}, expected {expected}; install elgo again")
            return read_shard(SHIPPED / name)[:count]
    return None


def validation_stream(problem: ProblemName, distribution: str, size: int) -> LabelStream:
    """Return the stream of a validation set."""
    return LabelStream(problem, ((size, size),), distribution, seconds=label_seconds(problem, size), validation=True)


def label_seconds(problem: ProblemName, size: int) -> float:
    """Return the time for one label of a validation set."""
    return (0.5 if problem == "tsp" else 3.0) * max(1.0, size / 100)


def instance_gaps(
    policy: Policy, labels: Sequence[Labelled], starts: int, config: DecodeConfig
) -> list[ValidationGaps]:
    """Return the gaps of each instance: greedy, no symmetries, from `starts` nodes spread evenly over all nodes."""
    tasks = [normalise_task(label.sample, policy.config.normalisation) for label in labels]
    first = [_spread(all_starts(task), starts) for task in tasks]
    found: list[ValidationGaps] = []
    for label, (actions, _) in zip(labels, decode(policy, tasks, first, config), strict=True):
        length = policy.env.length(make_batch([label.sample]), torch.from_numpy(actions).long()[None])[0].numpy()
        best, single = 100 * (np.array([length.min(), length.mean()]) / label.cost - 1)
        found.append(ValidationGaps(float(best), float(single)))
    return found


def _spread(nodes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return nodes[np.linspace(0, len(nodes) - 1, min(count, len(nodes))).round().astype(int)]
