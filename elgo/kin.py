"""Kin: which pairs of nodes classical methods would join. It carries the whole instance into the window.

TSP: a tour is a connected graph with N edges, two at every node. The cheapest connected graph with N edges is easy (a
minimum spanning tree and one edge more), and prices on the nodes (Held and Karp 1970) bring its degrees close to 2. How
much that lower bound rises when an edge is forced into it, the edge's alpha, tells better than the edge's length
whether good tours have it (Helsgaun 2000). The shares of edges in a linear relaxation (elgo.relaxation) tell more still,
above all between heaps far apart, whose prices take long to find: edges with a share are strong kin, others by alpha.

CVRP: in how many solutions two nodes are neighbours, of the savings of Clarke and Wright, several times, each time with
savings changed a little; and routes with shares of a linear relaxation (elgo.covering) that begins with those. Such
plans (elgo.plans) make strong kin as long as they can be carried out, and so does what savings make of the rest
(elgo.rest) at every move, up to 200 customers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import cycle
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError, cKDTree

from elgo.covering import cover_by_routes
from elgo.model.env import Batch, Task
from elgo.plans import LEAST_SHARE, Plans, join_plans, make_plans
from elgo.relaxation import edge_shares
from elgo.search.construct import join_routes, paths, root

Floats = NDArray[np.float64]

ROUNDS = 100  # of the ascent of prices
MOST_NODES = 2000  # with more, no linear programs: a TSP's shares come from the ascent, and a CVRP has no plans
SHARPNESS = 10.0  # the value of an edge falls to 1/e when its alpha is a tenth of the edges' length around it
LEAST = 0.01  # smaller values are left out
VOTE_PAIRS = 100  # nearest customers of each that may be joined with it
REST_PAIRS = 30  # the same where savings go on from a state, which happens at every move
REST_SHAPE = 1.3
REST_CUSTOMERS = 200  # with more, windows do not show the rest: policies were no better for it
NO_PAIRS = np.zeros((0, 2), np.int32)
SHAPES = np.linspace(0.7, 1.7, 48)  # one savings solution each: how much the way between two customers counts
STRONG = 0.5  # more have edges with a share: those of a TSP, and those of a CVRP's plans as long as they are left
NOISE = (0.1, 0.2)  # of those ways, in turn: a share of the savings would matter more in larger instances


class Kin(NamedTuple):
    """A symmetric sparse matrix of values in (0, 1]: node i has the entries begin[i] .. begin[i + 1] - 1.

    In a CVRP it holds what always counts; pairs that plans join are stronger than that.
    """

    begin: NDArray[np.int64]  # (N + 1,)
    node: NDArray[np.int64]
    value: NDArray[np.float32]
    plans: Plans  # of a CVRP
    pairs: NDArray[np.int32]  # (P, 2) of a CVRP: customers that savings would join, those that save most first
    pairs_begin: NDArray[np.int64]  # (tasks + 1,) where the pairs of each task begin

    def dense(self) -> NDArray[np.float32]:
        """(N, N), 0 where two nodes are not kin."""
        n = len(self.begin) - 1
        table = np.zeros((n, n), np.float32)
        table[np.repeat(np.arange(n), np.diff(self.begin)), self.node] = self.value
        return table


def find_kin(task: Task) -> Kin:
    """Kin among the nodes of a task. The latest are remembered: decoding and learning ask several times."""
    demand = None if task.demand is None else task.demand.astype(np.int64).tobytes()
    return _find_kin(task.coords.astype(np.float64).tobytes(), demand, task.capacity)


@lru_cache(maxsize=2048)
def _find_kin(coords: bytes, demand: bytes | None, capacity: int | None) -> Kin:
    points = np.frombuffer(coords).reshape(-1, 2)
    n = len(points)
    if n < 3:
        return _matrix(n, np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
    if demand is not None:
        return _plans_and_votes(Task(points, np.frombuffer(demand, np.int64), capacity))
    edges = candidate_edges(points)
    length = np.sqrt(((points[edges[:, 0]] - points[edges[:, 1]]) ** 2).sum(1))
    alpha, typical, share = alphas(edges, length, n, ROUNDS)
    if n <= MOST_NODES:
        exact = edge_shares(edges, length, n)
        share = share if exact is None else exact
    with np.errstate(divide="ignore", invalid="ignore"):  # where all points around coincide
        value = np.where(alpha > 0, np.exp(-SHARPNESS * alpha / typical[edges].mean(1)), 1.0)
    value = np.where(share > LEAST_SHARE, STRONG + (1 - STRONG) * share, STRONG * value)
    return _matrix(n, edges, value.astype(np.float32))


def join_kin(parts: Sequence[Kin]) -> Kin:
    """The rows of several tasks, one behind the other; nodes count within their own task."""
    ends = np.cumsum([0, *(len(part.node) for part in parts)])
    begin = [part.begin[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
    return Kin(
        np.concatenate([np.zeros(1, np.int64), *begin]),
        np.concatenate([np.zeros(0, np.int64), *(part.node for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.value for part in parts)]),
        join_plans([part.plans for part in parts]),
        np.concatenate([NO_PAIRS, *(part.pairs for part in parts)]),
        np.cumsum([0, *(len(part.pairs) for part in parts)]),
    )


def kin_of(batch: Batch) -> tuple[torch.Tensor, tuple[Kin, ...]]:
    """Among the nodes of a batch: values (B, N, N), 0 for padding, and each task's kin as it is."""
    n = batch.coords.shape[1]
    table = np.zeros((len(batch.size), n, n), np.float32)
    coords, found = batch.coords.cpu().numpy(), []
    for b, size in enumerate(batch.size.tolist()):
        demand = None if batch.demand is None else batch.demand[b, :size].cpu().numpy()
        capacity = None if batch.capacity is None else int(batch.capacity[b])
        kin = find_kin(Task(coords[b, :size], demand, capacity))
        table[b, :size, :size] = kin.dense()
        found.append(kin)
    return torch.from_numpy(table).to(batch.coords.device), tuple(found)


def _matrix(n: int, edges: NDArray[np.int64], value: NDArray[np.float32]) -> Kin:
    """Edges (E, 2), each once, and their values as rows."""
    edges, value = edges[value >= LEAST], value[value >= LEAST]
    both = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    begin = np.searchsorted(both[order, 0], np.arange(n + 1))
    values = np.concatenate([value, value])[order]
    kin = Kin(begin, both[order, 1], values, make_plans(n, [], []), NO_PAIRS, np.zeros(2, np.int64))
    for part in kin[:3]:
        part.setflags(write=False)  # it is shared by all who ask
    return kin


# --- savings ---------------------------------------------------------------------------------------------------------


def _plans_and_votes(task: Task) -> Kin:
    """The relaxation's routes, and as values which edges those or savings solutions have, the depot's included."""
    n = len(task.coords)
    solutions = [paths(links) for links, _ in sorted(_solutions(task), key=lambda solution: solution[1])]
    routes, shares = cover_by_routes(task, solutions) if n <= MOST_NODES else ([], [])
    voters = [*routes, *(np.array(route) for solution in solutions for route in solution)]
    weight = np.concatenate([shares, np.full(len(voters) - len(shares), (1 if routes else 2) / len(solutions))])
    ends = [np.stack([np.append(0, route), np.append(route, 0)]) for route in voters]
    both = np.concatenate(ends, axis=1)
    key, at = np.unique(both.min(0) * n + both.max(0), return_inverse=True)
    votes = np.bincount(at, np.repeat(weight, [end.shape[1] for end in ends]))
    value = STRONG * np.minimum(votes / 2, 1.0)  # either of them gives up to 1, and 2 to a customer alone on its route
    kin = _matrix(n, np.stack([key // n, key % n], axis=1), value.astype(np.float32))
    pairs = _rest_pairs(task)
    return kin._replace(plans=make_plans(n, routes, shares), pairs=pairs, pairs_begin=np.array([0, len(pairs)]))


def _rest_pairs(task: Task) -> NDArray[np.int32]:
    """(P, 2) customers close to each other that savings would join, in this order; none in large ones. See elgo.rest."""
    if len(task.coords) - 1 > REST_CUSTOMERS:
        return NO_PAIRS
    a, b, far, between = savings_pairs(task, REST_PAIRS)
    saved = far[a] + far[b] - REST_SHAPE * between
    order = np.argsort(-saved, kind="stable")
    return np.stack([a, b], axis=1)[order[saved[order] > 0]].astype(np.int32)


def savings_pairs(task: Task, nearest: int = VOTE_PAIRS) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
    """Customers a, b (P,) that may be joined, the way from the depot to each node (N,), and between the pairs (P,)."""
    coords, n = task.coords, len(task.coords)
    near = 1 + cKDTree(coords[1:]).query(coords[1:], k=min(n - 1, nearest + 1))[1].reshape(n - 1, -1)
    a, b = _unique(np.stack([np.repeat(np.arange(1, n), near.shape[1]), near.ravel()], axis=1)).T
    far = np.sqrt(((coords - coords[0]) ** 2).sum(1))
    return a, b, far, np.sqrt(((coords[a] - coords[b]) ** 2).sum(1))


def _solutions(task: Task) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Savings solutions: the neighbours (N, 2) of each customer, 0 for the depot, and the length."""
    coords, demand, capacity = task
    assert demand is not None
    assert capacity is not None
    a, b, far, between = savings_pairs(task)
    rng = np.random.default_rng(crc32(coords.tobytes()))
    for shape, noise in zip(SHAPES, cycle(NOISE), strict=False):
        saved = far[a] + far[b] - shape * between * (1 + noise * rng.standard_normal(len(a)))
        order = np.argsort(-saved, kind="stable")
        order = order[saved[order] > 0]
        links = join_routes(a[order], b[order], demand, capacity)
        way = np.sqrt(((coords[:, None] - coords[links]) ** 2).sum(2))[1:]
        yield links, float(np.where(links[1:] > 0, way / 2, way).sum())  # between customers, both name the edge


# --- the lower bound -------------------------------------------------------------------------------------------------


def candidate_edges(coords: NDArray[np.float64]) -> NDArray[np.int64]:
    """(E, 2) edges of a connected sparse graph that has those of good tours: to the nearest nodes, and Delaunay's."""
    n = len(coords)
    if n <= 12:
        return np.stack(np.triu_indices(n, 1), axis=1)
    near = cKDTree(coords).query(coords, k=9)[1]
    parts = [np.stack([np.repeat(np.arange(n), near.shape[1]), near.ravel()], axis=1)]
    along = np.lexsort(coords.T)
    parts.append(np.stack([along[:-1], along[1:]], axis=1))  # connected whatever the triangulation makes of it
    try:
        corners = Delaunay(coords, qhull_options="QJ Pp").simplices
        parts += [corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]
    except QhullError:  # all on one line
        pass
    return _unique(np.concatenate(parts))


def _unique(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each edge (E, 2) once, its lower node first; without loops."""
    low, high = edges.min(1).astype(np.int64), edges.max(1).astype(np.int64)
    n = int(high.max()) + 1
    key = np.unique((low * n + high)[low != high])
    return np.stack([key // n, key % n], axis=1)


@njit(cache=True, nogil=True)
def alphas(edges, length, n, rounds):  # type: ignore[no-untyped-def]
    """Of the edges of a graph: alpha (E,), the mean length of the bound's edges at each node (N,), and the share of the
    later rounds in which the bound had them (E,)."""
    price, best_price, last = np.zeros(n), np.zeros(n), np.zeros(n)
    parent, degree = np.zeros(n, np.int64), np.zeros(n, np.int64)
    chosen, cost = np.zeros(len(edges), np.int8), length.copy()
    total, _ = _grow(edges, cost, parent, chosen, degree)
    best, step = -np.inf, 0.3 * total / n
    share, late = np.zeros(len(edges)), rounds // 2
    for turn in range(rounds):
        if turn >= late:
            share += (chosen > 0) / (rounds - late)
        bound = total - 2 * price.sum()
        if bound > best:
            best = bound
            best_price[:] = price
        for i in range(n):
            surplus = degree[i] - 2.0
            price[i] += step * (0.7 * surplus + 0.3 * last[i])
            last[i] = surplus
        step *= 0.97
        _charge(edges, length, price, cost)
        total, _ = _grow(edges, cost, parent, chosen, degree)
    _charge(edges, length, best_price, cost)
    _, dearest = _grow(edges, cost, parent, chosen, degree)
    return _forced(edges, cost, chosen, n, dearest), _typical(edges, length, chosen, n), share


@njit(nogil=True)
def _charge(edges, length, price, cost):  # type: ignore[no-untyped-def]
    for e in range(len(edges)):
        cost[e] = length[e] + price[edges[e, 0]] + price[edges[e, 1]]


@njit(nogil=True)
def _grow(edges, cost, parent, chosen, degree):  # type: ignore[no-untyped-def]
    """A minimum spanning tree (chosen = 1) and the cheapest edge besides (2): their cost, and that edge's."""
    parent[:] = np.arange(len(parent))
    degree[:] = 0
    chosen[:] = 0
    total, besides = 0.0, np.inf
    for e in np.argsort(cost):
        a, b = edges[e]
        root_a, root_b = root(parent, a), root(parent, b)
        if root_a != root_b:
            parent[root_a] = root_b
            chosen[e] = 1
        elif besides == np.inf:
            chosen[e] = 2
            besides = cost[e]
        else:
            continue
        total += cost[e]
        degree[a] += 1
        degree[b] += 1
    return total, besides


@njit(nogil=True)
def _typical(edges, length, chosen, n):  # type: ignore[no-untyped-def]
    total, count = np.zeros(n), np.zeros(n)
    for e in range(len(edges)):
        if chosen[e] > 0:
            for i in edges[e]:
                total[i] += length[e]
                count[i] += 1
    return total / count


@njit(nogil=True)
def _forced(edges, cost, chosen, n, besides):  # type: ignore[no-untyped-def]
    """(E,) by how much the bound rises when an edge is forced in: it drives out the dearest of its cycle."""
    up, climb, depth = _rooted(edges, cost, chosen, n)
    alpha = np.zeros(len(edges))
    for e in range(len(edges)):
        if chosen[e] > 0:
            continue
        a, b = edges[e]
        dearest = besides
        while a != b:
            if depth[a] < depth[b]:
                a, b = b, a
            dearest = max(dearest, climb[a])
            a = up[a]
        alpha[e] = cost[e] - dearest
    return alpha


@njit(nogil=True)
def _rooted(edges, cost, chosen, n):  # type: ignore[no-untyped-def]
    """The tree from node 0 on: each node's parent, the cost of the edge to it, and its depth."""
    begin = np.zeros(n + 1, np.int64)
    for e in range(len(edges)):
        if chosen[e] == 1:
            begin[edges[e, 0] + 1] += 1
            begin[edges[e, 1] + 1] += 1
    begin = np.cumsum(begin)
    end, at = begin[:-1].copy(), np.empty(begin[n], np.int64)
    for e in range(len(edges)):
        if chosen[e] == 1:
            for i in edges[e]:
                at[end[i]] = e
                end[i] += 1
    up, climb, depth = np.full(n, -1), np.zeros(n), np.zeros(n, np.int64)
    stack = [0]
    while len(stack) > 0:
        i = stack.pop()
        for e in at[begin[i] : begin[i + 1]]:
            j = edges[e, 0] + edges[e, 1] - i
            if j != up[i]:
                up[j], climb[j], depth[j] = i, cost[e], depth[i] + 1
                stack.append(j)
    return up, climb, depth
