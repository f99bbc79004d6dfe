"""Imitation: teacher forcing on near-optimal solutions, with cross-entropy on the ensemble's probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.model.env import Batch, make_batch
from elgo.problem.augment import SYMMETRIES, Normalisation, normalise_task, symmetry
from elgo.problem.task import Task
from elgo.train.config import Config, ImitationConfig
from elgo.train.data import LabelSource, StoredLabels, label_source, step_rng
from elgo.train.labelling import Labelled
from elgo.train.log_prob import Moves, weighted_log_prob
from elgo.train.processes import Processes, StepLoss
from elgo.train.run import RunState

READ_ON_STEPS = 2000  # after which stores are asked for new labels


class Imitation:
    """The training method: cross-entropy on the labels of a step."""

    def __init__(self, config: Config, options: ImitationConfig, folder: Path, processes: Processes) -> None:
        self.config, self.options, self.folder, self.processes = config, options, folder, processes
        self.source: LabelSource | None = None

    def backward(self, policy: Policy, state: RunState) -> StepLoss:
        """Add the gradient of the summed loss of this process's share to the policy's parameters."""
        options, device = self.options, self.processes.device
        labels = self._labels(state)
        rng = step_rng(self.config.train.seed, state.step, purpose=1)
        sequences = options.sequences or labels[0].sample.customers
        whole = make_imitation_batch(labels, sequences, rng, self.config.policy.normalisation)
        steps = choose_steps(whole.actions.shape[2], options.states, rng)
        mine = torch.arange(self.processes.rank, len(labels), self.processes.count)
        if len(mine) == 0:
            return StepLoss(torch.zeros((), device=device), torch.zeros((), device=device), len(labels))
        with self.processes.autocast(self.config.train.amp):
            total, count = imitation_loss(policy, whole.select(mine).to(device), steps.to(device))
        total.backward()
        return StepLoss(total.detach(), count, len(labels))

    def _labels(self, state: RunState) -> list[Labelled]:
        """Return the labelled instances of a step; stores that grow are read on now and then."""
        if self.source is None:
            self.source = label_source(self.config, self.options, self.folder, writing=self.processes.rank == 0)
        if isinstance(self.source, StoredLabels):
            if not state.labels or state.step % READ_ON_STEPS == 0:
                state.labels = tuple(int(self.processes.agree(count)) for count in self.source.counts())
            self.source.use(state.labels)
        return self.source.batch(state.step)

    def close(self) -> None:
        """End the process that labels instances."""
        if self.source is not None:
            self.source.close()


class ImitationBatch(NamedTuple):
    """Labelled instances, each with M node sequences of its solution."""

    batch: Batch
    actions: Tensor  # (B, M, T)
    route_ends: Tensor | None  # (B, N) True for the first and last customer of each route; None in TSP

    def select(self, rows: Tensor) -> ImitationBatch:
        """Return some of the instances, with the padding of the whole batch."""
        ends = None if self.route_ends is None else self.route_ends[rows]
        return ImitationBatch(self.batch.select(rows), self.actions[rows], ends)

    def to(self, device: torch.device) -> ImitationBatch:
        ends = None if self.route_ends is None else self.route_ends.to(device)
        return ImitationBatch(self.batch.to(device), self.actions.to(device), ends)


def make_imitation_batch(
    labels: Sequence[Labelled], sequences: int, rng: Generator, how: Normalisation = "fit"
) -> ImitationBatch:
    """Return the instances, randomly rotated or reflected, with random node sequences of their solutions."""
    tasks = [rotated(label, rng, how) for label in labels]
    is_tsp = labels[0].sample.demand is None
    sequence = _tour_sequence if is_tsp else _route_sequence
    chosen = [[sequence(label, rng) for _ in range(sequences)] for label in labels]
    longest = max(len(nodes) for own in chosen for nodes in own)
    actions = np.empty((len(labels), sequences, longest), dtype=np.int64)
    for i, own in enumerate(chosen):
        for j, nodes in enumerate(own):
            actions[i, j, : len(nodes)] = nodes
            actions[i, j, len(nodes) :] = nodes[-1]  # a finished sequence stays at its last node, as a rollout does
    if is_tsp:
        return ImitationBatch(make_batch(tasks), torch.from_numpy(actions), None)
    ends = np.zeros((len(labels), max(label.sample.size for label in labels)), dtype=bool)
    for row, label in enumerate(labels):
        for route in label.routes:
            ends[row, [route[0], route[-1]]] = True
    return ImitationBatch(make_batch(tasks), torch.from_numpy(actions), torch.from_numpy(ends))


def rotated(label: Labelled, rng: Generator, how: Normalisation = "fit") -> Task:
    """Return the instance under a random rotation and reflection, scaled to the unit square again.

    A policy that sees raw coordinates gets one of the 8 symmetries of the square instead, which need no scaling.
    """
    if how != "fit":
        task = normalise_task(label.sample, how)
        return task._replace(coords=symmetry(task.coords, int(rng.integers(SYMMETRIES))))
    angle = rng.uniform(0, 2 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turn[0] *= rng.choice([-1, 1])
    return normalise_task(label.sample._replace(coords=label.sample.coords @ turn), how)


def _tour_sequence(label: Labelled, rng: Generator) -> NDArray[np.int64]:
    """Return the tour from a random node in a random direction."""
    begin = len(label.tour) - rng.integers(len(label.tour))
    nodes = np.concatenate([label.tour[begin:], label.tour[:begin]])  # half the time of np.roll
    return nodes[::-1] if rng.random() < 0.5 else nodes


def _route_sequence(label: Labelled, rng: Generator) -> NDArray[np.int64]:
    """Return the routes in random order and directions, each followed by the depot."""
    routes, nodes = label.routes, list[int]()
    for k in rng.permutation(len(routes)):
        nodes += routes[k][:: rng.choice([-1, 1])]
        nodes.append(0)
    return np.array(nodes)


def choose_steps(length: int, count: int, rng: Generator) -> Tensor:
    """Return `count` of the steps 1 to length - 1 without repetition; all of them if count is 0 or too large."""
    steps = np.arange(1, length)
    return torch.from_numpy(rng.choice(steps, count, replace=False) if 0 < count < len(steps) else steps)


def imitation_moves(labelled: ImitationBatch, steps: Tensor) -> Moves:
    """Return the moves at `steps` (S,) of the sequences, each with weight -1, without those of the padding.

    At the depot both ends of every remaining route are right: their summed probability counts.
    """
    actions = labelled.actions
    weight = torch.zeros(actions.shape, device=actions.device)
    weight[:, :, steps] = -(actions[:, :, steps] != actions[:, :, steps - 1]).float()
    return Moves(actions, weight, labelled.route_ends)


def imitation_loss(policy: Policy, labelled: ImitationBatch, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Return the summed -log p of the right next nodes at `steps` (S,) of the sequences, and the number of summands."""
    moves = imitation_moves(labelled, steps)
    return weighted_log_prob(policy, policy.encode(labelled.batch), moves), -moves.weight.sum()
