"""The environments: TSP and CVRP as construction problems.

A solution is built node by node. `Batch` is what is known beforehand, `State` what has been built so far, and each
environment says which nodes may come next. Everything is a pure function of its arguments; masks are True = allowed.
The torch side of a new problem is one more class here; CONTRIBUTING.md lists the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from elgo.problem.task import ProblemName, Task


class Batch(NamedTuple):
    """B tasks of one problem, padded to the largest N."""

    coords: Tensor  # (B, N, 2) float64: float32 would break ties between equal distances by rounding
    size: Tensor  # (B,) real nodes of each task, depot included
    demand: Tensor  # (B, N) int64; 0 in TSP
    capacity: Tensor  # (B,) int64; 0 in TSP

    @property
    def real(self) -> Tensor:
        """(B, N) True where a node is not padding."""
        return torch.arange(self.coords.shape[1], device=self.coords.device) < self.size[:, None]

    def to(self, device: torch.device | str) -> Batch:
        return Batch(*(x.to(device) for x in self))


class State(NamedTuple):
    """M partial solutions for each of B tasks."""

    first: Tensor  # (B, M) first node chosen
    current: Tensor  # (B, M)
    visited: Tensor  # (B, M, N) bool; the depot never counts as visited
    load: Tensor  # (B, M) int64 units left in the vehicle; 0 in TSP


def make_batch(tasks: Sequence[Task]) -> Batch:
    """Pad tasks of one problem into a Batch."""
    n = max(len(task.coords) for task in tasks)
    coords, demand = np.zeros((len(tasks), n, 2)), np.zeros((len(tasks), n), dtype=np.int64)
    for row, task in enumerate(tasks):
        coords[row, : len(task.coords)] = task.coords
        demand[row, : len(task.coords)] = 0 if task.demand is None else task.demand
    size, capacity = [len(task.coords) for task in tasks], [task.capacity or 0 for task in tasks]
    return Batch(torch.from_numpy(coords), torch.tensor(size), torch.from_numpy(demand), torch.tensor(capacity))


class Environment(Protocol):
    """What the policy and the decoder ask of a problem."""

    has_depot: bool

    def node_features(self, batch: Batch) -> Tensor:
        """(B, N, F) float32 features of the encoder."""

    def load_share(self, batch: Batch, state: State) -> Tensor:
        """(B, M) float32: what is left in the vehicle as a share of its capacity; 0 in TSP."""

    def start(self, batch: Batch, starts: Tensor) -> State:
        """The state after the first move to `starts` (B, M)."""

    def valid(self, batch: Batch, state: State) -> Tensor:
        """(B, M, N) nodes that may come next. A finished rollout may only stay where it is."""

    def step(self, batch: Batch, state: State, action: Tensor) -> State:
        """The state after moving to `action` (B, M)."""

    def finished(self, batch: Batch, state: State) -> Tensor:
        """(B, M) True where nothing is left to do."""

    def along(self, batch: Batch, actions: Tensor, steps: Tensor) -> State:
        """The states before actions `steps` (S,), each at least 1, of given sequences (B, M, T): M becomes M * S."""

    def length(self, batch: Batch, actions: Tensor) -> Tensor:
        """(B, M) float32 Euclidean length of complete sequences (B, M, T)."""


def gather_nodes(values: Tensor, index: Tensor) -> Tensor:
    """Rows (B, M, D) of node values (B, N, D) at index (B, M)."""
    b, n, width = values.shape
    rows = index + n * torch.arange(b, device=index.device)[:, None]
    return values.reshape(b * n, width).index_select(0, rows.flatten()).view(b, -1, width)


def _unvisited(batch: Batch, state: State) -> Tensor:
    """(B, M, N) real nodes that are not visited; always the depot."""
    return batch.real[:, None, :] & ~state.visited


def _along(batch: Batch, actions: Tensor, steps: Tensor, load: Tensor) -> State:
    """The states before actions `steps` (S,) of sequences (B, M, T), all their nodes visited, with load (B, M, S)."""
    b, m, t = actions.shape
    order = torch.arange(t, device=actions.device).expand(b, m, t)
    when = torch.full((b, m, batch.coords.shape[1]), t, device=actions.device).scatter_reduce(2, actions, order, "amin")
    visited = when[:, :, None, :] < steps[:, None]  # (B, M, S, N) True for nodes before the action at a step
    current = actions[:, :, steps - 1]
    return State(*(x.flatten(1, 2) for x in (actions[:, :, :1].expand_as(current), current, visited, load)))


def _edge_lengths(batch: Batch, sequence: Tensor) -> Tensor:
    """Length of the closed walk through sequence (B, M, T), as (B, M)."""
    b, m, t = sequence.shape
    points = gather_nodes(batch.coords, sequence.reshape(b, m * t)).reshape(b, m, t, 2)
    return (points - points.roll(-1, dims=2)).square().sum(-1).sqrt().sum(-1).float()


class TSP:
    """One closed tour over all nodes."""

    has_depot = False

    def node_features(self, batch: Batch) -> Tensor:
        return batch.coords.float()

    def load_share(self, batch: Batch, state: State) -> Tensor:
        return state.load.float()

    def start(self, batch: Batch, starts: Tensor) -> State:
        visited = torch.zeros(*starts.shape, batch.coords.shape[1], dtype=torch.bool, device=starts.device)
        return State(starts, starts, visited.scatter(2, starts[:, :, None], True), torch.zeros_like(starts))

    def valid(self, batch: Batch, state: State) -> Tensor:
        left = _unvisited(batch, state)
        return left.scatter(2, state.current[:, :, None], ~left.any(-1, keepdim=True))

    def step(self, batch: Batch, state: State, action: Tensor) -> State:
        return state._replace(current=action, visited=state.visited.scatter(2, action[:, :, None], True))

    def finished(self, batch: Batch, state: State) -> Tensor:
        return ~_unvisited(batch, state).any(-1)

    def along(self, batch: Batch, actions: Tensor, steps: Tensor) -> State:
        return _along(batch, actions, steps, torch.zeros_like(actions[:, :, steps]))

    def length(self, batch: Batch, actions: Tensor) -> Tensor:
        return _edge_lengths(batch, actions)


class CVRP:
    """Routes from the depot (node 0) within the vehicle's capacity. From a start at the depot, any customer is next."""

    has_depot = True

    def node_features(self, batch: Batch) -> Tensor:
        share = batch.demand.float() / batch.capacity[:, None].float()
        return torch.cat([batch.coords.float(), share[:, :, None]], dim=-1)

    def load_share(self, batch: Batch, state: State) -> Tensor:
        return state.load.float() / batch.capacity[:, None].float()

    def start(self, batch: Batch, starts: Tensor) -> State:
        visited = torch.zeros(*starts.shape, batch.coords.shape[1], dtype=torch.bool, device=starts.device)
        full = batch.capacity[:, None].expand_as(starts)
        return self.step(batch, State(starts, torch.zeros_like(starts), visited, full), starts)

    def valid(self, batch: Batch, state: State) -> Tensor:
        left = _unvisited(batch, state)
        fits = left & (batch.demand[:, None, :] <= state.load[:, :, None])
        # the depot is a move, unless we are there with work left
        away = (state.current != 0) | ~left[:, :, 1:].any(-1)
        return torch.cat([away[:, :, None], fits[:, :, 1:]], dim=2)

    def step(self, batch: Batch, state: State, action: Tensor) -> State:
        at_depot = action == 0
        visited = state.visited.scatter(2, action[:, :, None], ~at_depot[:, :, None])
        load = state.load - batch.demand.gather(1, action)
        return State(state.first, action, visited, torch.where(at_depot, batch.capacity[:, None], load))

    def finished(self, batch: Batch, state: State) -> Tensor:
        return ~_unvisited(batch, state)[:, :, 1:].any(-1) & (state.current == 0)

    def along(self, batch: Batch, actions: Tensor, steps: Tensor) -> State:
        used = batch.demand[:, None, :].expand(-1, actions.shape[1], -1).gather(2, actions).cumsum(-1)
        refilled = torch.where(actions == 0, used, 0).cummax(-1).values  # what had been used when last at the depot
        load = (batch.capacity[:, None, None] - used + refilled)[:, :, steps - 1]
        state = _along(batch, actions, steps, load)
        state.visited[..., 0] = False
        return state

    def length(self, batch: Batch, actions: Tensor) -> Tensor:
        return _edge_lengths(batch, torch.nn.functional.pad(actions, (1, 0)))


ENVIRONMENTS: dict[ProblemName, Environment] = {"tsp": TSP(), "cvrp": CVRP()}
