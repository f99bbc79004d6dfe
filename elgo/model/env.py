"""The environments: TSP and CVRP as construction problems.

A solution is built node by node. `Batch` is what is known beforehand, `State` what has been built so far, and each
environment says which nodes may come next. Everything is a pure function of its arguments; masks are True = allowed.
The torch side of a new problem is one more class here; CONTRIBUTING.md lists the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from elgo.problem.task import ProblemName, Task


class Batch(NamedTuple):
    """B tasks of one problem, padded to the largest N."""

    coords: Tensor  # (B, N, 2) float64: float32 would break ties between equal distances by rounding
    real: Tensor | None  # (B, N) True where a node is not padding; None if nothing is padded
    demand: Tensor  # (B, N) int64; 0 in TSP
    capacity: Tensor  # (B, 1) int64; 0 in TSP
    first_row: Tensor  # (B, 1) where the nodes of a task begin in a table (B * N, D) of the nodes of all tasks

    @property
    def size(self) -> Tensor:
        """(B,) real nodes of each task, depot included."""
        return torch.full_like(self.capacity[:, 0], self.coords.shape[1]) if self.real is None else self.real.sum(1)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        return self._map(lambda x: x.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return a copy from which a GPU can fetch the batch without waiting."""
        return self._map(Tensor.pin_memory)

    def select(self, rows: Tensor | slice) -> Batch:
        """Return some of the tasks, with the padding of the whole batch."""
        part = self._map(lambda x: x[rows])
        return part._replace(first_row=self.first_row[: len(part.coords)])

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        coords, real, *rest = self
        return Batch(change(coords), None if real is None else change(real), *map(change, rest))


class State(NamedTuple):
    """M partial solutions for each of B tasks."""

    first: Tensor  # (B, M) first node chosen
    current: Tensor  # (B, M)
    visited: Tensor  # (B, M, N) bool; padding counts as visited, the depot never does
    load: Tensor  # (B, M) int64 units left in the vehicle; 0 in TSP


def make_batch(tasks: Sequence[Task]) -> Batch:
    """Pad tasks of one problem into a Batch."""
    n = max(len(task.coords) for task in tasks)
    coords, demand = np.zeros((len(tasks), n, 2)), np.zeros((len(tasks), n), dtype=np.int64)
    for row, task in enumerate(tasks):
        coords[row, : len(task.coords)] = task.coords
        demand[row, : len(task.coords)] = 0 if task.demand is None else task.demand
    size = torch.tensor([len(task.coords) for task in tasks])
    real = torch.arange(n) < size[:, None] if size.min() < n else None
    capacity = torch.tensor([[task.capacity or 0] for task in tasks])
    first_row = torch.arange(0, len(tasks) * n, n)[:, None]
    return Batch(torch.from_numpy(coords), real, torch.from_numpy(demand), capacity, first_row)


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

    def move_bounds(self, nodes: int) -> tuple[int, int]:
        """The least and the most moves after the start that finish a task of so many nodes, depot included."""

    def along(self, batch: Batch, actions: Tensor, steps: Tensor) -> State:
        """The states before actions `steps` (S,), each at least 1, of given sequences (B, M, T): M becomes M * S."""

    def length(self, batch: Batch, actions: Tensor) -> Tensor:
        """(B, M) float32 Euclidean length of complete sequences (B, M, T)."""


def gather_nodes(values: Tensor, index: Tensor) -> Tensor:
    """Rows (B, M, D) of node values (B, N, D) at index (B, M)."""
    b, n, _ = values.shape
    return F.embedding(index + torch.arange(0, b * n, n, device=index.device)[:, None], values.flatten(0, 1))


def _nothing_visited(batch: Batch, starts: Tensor) -> Tensor:
    """(B, M, N) True for padding."""
    shape = *starts.shape, batch.coords.shape[1]
    if batch.real is None:
        return torch.zeros(shape, dtype=torch.bool, device=starts.device)
    return ~batch.real[:, None, :].expand(shape)


def _along(batch: Batch, actions: Tensor, steps: Tensor, load: Tensor) -> State:
    """The states before actions `steps` (S,) of sequences (B, M, T), all their nodes visited, with load (B, M, S)."""
    b, m, t = actions.shape
    order = torch.arange(t, device=actions.device).expand(b, m, t)
    when = torch.full((b, m, batch.coords.shape[1]), t, device=actions.device).scatter_reduce(2, actions, order, "amin")
    visited = when[:, :, None, :] < steps[:, None]  # (B, M, S, N) True for nodes before the action at a step
    if batch.real is not None:
        visited |= ~batch.real[:, None, None, :]
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
        visited = _nothing_visited(batch, starts)
        return State(starts, starts, visited.scatter(2, starts[:, :, None], True), torch.zeros_like(starts))

    def valid(self, batch: Batch, state: State) -> Tensor:
        all_visited = state.visited.all(-1, keepdim=True)
        return (~state.visited).scatter(2, state.current[:, :, None], all_visited)

    def step(self, batch: Batch, state: State, action: Tensor) -> State:
        return state._replace(current=action, visited=state.visited.scatter(2, action[:, :, None], True))

    def finished(self, batch: Batch, state: State) -> Tensor:
        return state.visited.all(-1)

    def move_bounds(self, nodes: int) -> tuple[int, int]:
        return nodes - 1, nodes - 1

    def along(self, batch: Batch, actions: Tensor, steps: Tensor) -> State:
        return _along(batch, actions, steps, torch.zeros_like(actions[:, :, steps]))

    def length(self, batch: Batch, actions: Tensor) -> Tensor:
        return _edge_lengths(batch, actions)


class CVRP:
    """Routes from the depot (node 0) within the vehicle's capacity. From a start at the depot, any customer is next."""

    has_depot = True

    def node_features(self, batch: Batch) -> Tensor:
        share = batch.demand / batch.capacity
        return torch.cat([batch.coords.float(), share[:, :, None]], dim=-1)

    def load_share(self, batch: Batch, state: State) -> Tensor:
        return state.load / batch.capacity

    def start(self, batch: Batch, starts: Tensor) -> State:
        visited = _nothing_visited(batch, starts)
        full = batch.capacity.expand_as(starts)
        return self.step(batch, State(starts, torch.zeros_like(starts), visited, full), starts)

    def valid(self, batch: Batch, state: State) -> Tensor:
        valid = (batch.demand[:, None, :] <= state.load[:, :, None]) & ~state.visited
        # the depot is a move, unless we are there with work left
        valid[:, :, 0] = (state.current != 0) | state.visited[:, :, 1:].all(-1)
        return valid

    def step(self, batch: Batch, state: State, action: Tensor) -> State:
        away = action != 0
        visited = state.visited.scatter(2, action[:, :, None], away[:, :, None])
        load = state.load - batch.demand.gather(1, action)
        return State(state.first, action, visited, torch.where(away, load, batch.capacity))

    def finished(self, batch: Batch, state: State) -> Tensor:
        return state.visited[:, :, 1:].all(-1) & (state.current == 0)

    def move_bounds(self, nodes: int) -> tuple[int, int]:
        return nodes - 1, 2 * (nodes - 1)  # in one route; from the depot, with a route for each customer

    def along(self, batch: Batch, actions: Tensor, steps: Tensor) -> State:
        used = batch.demand[:, None, :].expand(-1, actions.shape[1], -1).gather(2, actions).cumsum(-1)
        refilled = torch.where(actions == 0, used, 0).cummax(-1).values  # what had been used when last at the depot
        load = (batch.capacity[:, :, None] - used + refilled)[:, :, steps - 1]
        state = _along(batch, actions, steps, load)
        state.visited[..., 0] = False
        return state

    def length(self, batch: Batch, actions: Tensor) -> Tensor:
        return _edge_lengths(batch, torch.nn.functional.pad(actions, (1, 0)))


ENVIRONMENTS: dict[ProblemName, Environment] = {"tsp": TSP(), "cvrp": CVRP()}
