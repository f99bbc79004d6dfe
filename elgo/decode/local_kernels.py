"""Penalty and local policy as compiled kernels: what the neighbours of each state score beyond other nodes.

The K nearest valid nodes come from a presorted list. The local network is linear in its few features, so the tokens
(rank encoding included) are folded into small tables and never built. T tokens, N nodes padded to P, R states.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.decode.arithmetic import CLOSED, FAST, LANES, UNDERFLOW, Floats, Integers
from elgo.decode.tiles import LANES as TILE_LANES
from elgo.decode.tiles import PARTS, add_outer, store_parts, zero_tile
from elgo.decode.vectors import exp, load, splat, store, sums

LIST_LIMIT = 1024  # longest presorted neighbour list; beyond it the kernel searches all nodes


class LocalTables(NamedTuple):
    """The local policy folded into tables; T = K tokens, or 1 + K with a depot, padded. The same for every task."""

    attend: Floats  # (H, 3) what a feature adds to a head's attention score
    attend_rank: Floats  # (H, T) what a rank adds, so far below 0 that no score is above it
    readout: Floats  # (H * (T + 4), T + 4, padded) from the weights of tokens, features and 1 to u_local: see _attend


class NeighbourLists(NamedTuple):
    """The neighbours of each node of one task, nearest first and without the depot, as the local policy sees them."""

    coords: NDArray[np.float64]  # (N, 2)
    order: NDArray[np.uint32]  # (N, W) nodes by distance
    rho: Floats  # (N, W)
    first: Floats  # (N, W) rho, or dx in the Euclidean ablation: divided by the radius
    second: Floats  # (N, W) theta, or dy: divided by the radius only in the Euclidean ablation


class KernelConfig(NamedTuple):
    """The scalars of the policy's config that the kernels need."""

    neighbours: int
    clip: float
    xi: float
    penalty: bool
    use_global: bool
    use_local: bool
    euclidean: bool
    has_depot: bool
    radius_slack: float
    penalty_slack: float


class LocalState(NamedTuple):
    """What the local policy depends on in R states."""

    current: Integers  # (R,)
    units: Integers  # (R,) left in the vehicle
    open_count: Integers  # (R,) nodes that may come next, without the depot
    is_open: Floats  # (R, P) 1 for nodes that may come next, 0 for others


class Observation(NamedTuple):
    """What the local policy sees in R states, and scratch memory to score it."""

    features: Floats  # (R, 3, T)
    node: Integers  # (R, T) neighbours, nearest first
    rho: Floats  # (R, T + 1) their distances divided by the radius
    found: Integers  # (R,) how many there are
    weights: Floats  # (R padded to a multiple of 8, H * (T + 4)) see _attend
    scores: Floats  # (R padded, T + 4 padded)
    place: Integers  # (T + 1,) of the neighbours in the list of the current node
    absent: Floats  # (R, T) 0 for tokens that are there, CLOSED for others


def neighbour_lists(coords: NDArray[np.float64], has_depot: bool, euclidean: bool) -> NeighbourLists:
    """Return the presorted neighbour lists of one task's nodes (N, 2)."""
    n, lowest = len(coords), int(has_depot)
    width = min(n - lowest, LIST_LIMIT)
    order = np.empty((n, width), np.uint32)
    rho, first, second = (np.empty((n, width), np.float32) for _ in range(3))
    for begin in range(0, n, 512):  # rows in chunks: the whole N x N matrix of doubles would not always fit
        rows = slice(begin, min(begin + 512, n))
        nearest, rho[rows] = _nearest_rows(coords[rows], coords, lowest, width)
        dx, dy = (coords[:, axis].take(nearest) - coords[rows, None, axis] for axis in (0, 1))
        order[rows] = nearest
        first[rows] = dx if euclidean else rho[rows]
        second[rows] = dy if euclidean else np.arctan2(dy, dx)
    return NeighbourLists(coords, order, rho, first, second)


def _nearest_rows(
    here: NDArray[np.float64], coords: NDArray[np.float64], lowest: int, width: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the `width` nearest nodes (from `lowest` on) of each point, nearest first, and their distances."""
    dx, dy = (coords[None, lowest:, axis] - here[:, None, axis] for axis in (0, 1))
    rho = np.sqrt(dx * dx + dy * dy).astype(np.float32)  # rounded as in model.neighbours, and sorted by the same key
    key = rho.view(np.int32).astype(np.int64) << 32 | np.arange(lowest, len(coords))
    if width < key.shape[1]:
        key = np.partition(key, width - 1, axis=1)[:, :width]
    key = np.sort(key, axis=1)
    return key & 0xFFFFFFFF, (key >> 32).astype(np.int32).view(np.float32)


@njit(nogil=True)
def new_observation(local: LocalTables, count: int) -> Observation:
    """Return arrays for so many states."""
    tokens, padded = local.attend_rank.shape[1], count + -count % PARTS
    found = np.zeros(count, np.int64)
    for r in range(count):
        found[r] = -1  # nothing is written yet
    return Observation(
        features=np.zeros((count, 3, tokens), np.float32),
        node=np.zeros((count, tokens), np.int64),
        rho=np.zeros((count, tokens + 1), np.float32),
        found=found,
        weights=np.zeros((padded, local.readout.shape[0]), np.float32),
        scores=np.zeros((padded, local.readout.shape[1]), np.float32),
        place=np.zeros(tokens + 1, np.int64),
        absent=np.zeros((count, tokens), np.float32),
    )


@njit(nogil=True)
def _search_list(order: NDArray[np.uint32], current: int, is_open: Floats, r: int, count: int, place: Integers) -> int:
    """Write the places of the `count` nearest open nodes in the list of `current`; return how many there are in it."""
    found, j = 0, 0
    while found < count and j < order.shape[1]:  # without a branch on is_open, which no processor can predict
        place[found] = j
        found += int(is_open[r, order[current, j]])
        j += 1
    return found


@njit(nogil=True)
def _search_all(
    lists: NeighbourLists, config: KernelConfig, state: LocalState, r: int, count: int, seen: Observation
) -> int:
    """Find the `count` nearest open nodes by looking at every node: only when the presorted list is too short."""
    coords, current, shift = lists.coords, state.current[r], 1 if config.has_depot else 0
    node, rho, features = seen.node[r], seen.rho[r], seen.features[r]
    found = 0
    for n in range(shift, state.is_open.shape[1]):
        if state.is_open[r, n] == 0:
            continue
        dx = coords[n, 0] - coords[current, 0]
        dy = coords[n, 1] - coords[current, 1]
        distance = np.float32(math.sqrt(dx * dx + dy * dy))
        if found == count and distance >= rho[count - 1]:
            continue
        at = found if found < count else count - 1
        while at > 0 and rho[at - 1] > distance:
            node[at], rho[at] = node[at - 1], rho[at - 1]
            features[0, shift + at], features[1, shift + at] = features[0, shift + at - 1], features[1, shift + at - 1]
            at -= 1
        node[at], rho[at] = n, distance
        features[0, shift + at] = np.float32(dx) if config.euclidean else distance
        features[1, shift + at] = np.float32(dy) if config.euclidean else np.float32(math.atan2(dy, dx))
        found = min(found + 1, count)
    return found


@njit(nogil=True, fastmath=FAST)
def _observe(
    lists: NeighbourLists, config: KernelConfig, demand: Integers, state: LocalState, seen: Observation
) -> None:
    """Write the neighbours of each state and their features."""
    x, node, rho, place, absent = seen.features, seen.node, seen.rho, seen.place, seen.absent
    order, distance, first, second = lists.order, lists.rho, lists.first, lists.second
    current, units, open_count, is_open = state
    shift = 1 if config.has_depot else 0
    for r in range(current.shape[0]):
        c, count = current[r], min(config.neighbours, open_count[r])
        found = _search_list(order, c, is_open, r, count, place)
        listed = found == count
        if not listed:
            found = _search_all(lists, config, state, r, count, seen)
        radius = np.float32(0.0)
        if found > 0:
            radius = distance[c, place[found - 1]] if listed else rho[r, found - 1]
        inverse = np.float32(1.0) / (radius + np.float32(config.radius_slack)) if radius > 0 else np.float32(1.0)
        to_share = np.float32(1.0) / (radius + np.float32(config.penalty_slack)) if radius > 0 else np.float32(1.0)
        to_second = inverse if config.euclidean else np.float32(1.0)
        if listed:
            for t in range(found):
                j = place[t]
                node[r, t], rho[r, t] = order[c, j], distance[c, j] * to_share
                x[r, 0, shift + t], x[r, 1, shift + t] = first[c, j] * inverse, second[c, j] * to_second
        else:
            for t in range(found):
                rho[r, t] *= to_share
                x[r, 0, shift + t] *= inverse
                x[r, 1, shift + t] *= to_second
        if found != seen.found[r]:
            for t in range(absent.shape[1]):
                absent[r, t] = np.float32(0.0) if shift <= t and t < found + shift else CLOSED
            seen.found[r] = found
        if config.has_depot:
            absent[r, 0] = np.float32(0.0) if is_open[r, 0] > 0 else CLOSED
            share = np.float32(1.0) / np.float32(max(units[r], 1))
            for t in range(found):
                x[r, 2, 1 + t] = np.float32(demand[node[r, t]]) * share


@njit(fastmath=FAST)
def _highest_score(x: Floats, absent: Floats, attend: Floats, rank: Floats, r: int, h: int) -> np.float32:
    """Return the highest score of the tokens of a state for one head."""
    top = CLOSED
    for t in range(x.shape[2]):
        u = attend[h, 0] * x[r, 0, t] + attend[h, 1] * x[r, 1, t] + attend[h, 2] * x[r, 2, t]
        top = max(top, u + rank[h, t] + absent[r, t])
    return top


@njit(fastmath=FAST, error_model="numpy")
def _attend(local: LocalTables, seen: Observation, states: int) -> None:
    """Attention of the context vector over the tokens of each state.

    Into seen.weights (R, H * (T + 4)), for each head: the weights of the tokens, the mean of each feature, 1.
    """
    x, absent, out, attend, rank = seen.features, seen.absent, seen.weights, local.attend, local.attend_rank
    tokens, zero = x.shape[2], splat(np.float32(0.0))
    for r in range(states):
        x0, x1, x2 = 3 * r * tokens, (3 * r + 1) * tokens, (3 * r + 2) * tokens
        for h in range(attend.shape[0]):
            a0, a1, a2 = splat(attend[h, 0]), splat(attend[h, 1]), splat(attend[h, 2])
            begin, lift, weight = r * out.shape[1] + h * (tokens + 4), zero, np.float32(0.0)
            for _ in range(2):
                total, s0, s1, s2 = zero, zero, zero, zero
                for t in range(0, tokens, LANES):
                    y0, y1, y2 = load(x, x0 + t), load(x, x1 + t), load(x, x2 + t)
                    fixed = load(rank, h * tokens + t) + load(absent, r * tokens + t) + lift
                    w = exp(fixed + a0 * y0 + a1 * y1 + a2 * y2)
                    store(out, begin + t, w)
                    total, s0, s1, s2 = total + w, s0 + w * y0, s1 + w * y1, s2 + w * y2
                weight, m0, m1, m2 = sums(total, s0, s1, s2)
                if weight >= UNDERFLOW:
                    break
                lift = splat(-_highest_score(x, absent, attend, rank, r, h))
            inverse = np.float32(1.0) / weight
            for t in range(begin, begin + tokens, LANES):
                store(out, t, load(out, t) * splat(inverse))
            at = h * (tokens + 4) + tokens
            out[r, at], out[r, at + 1], out[r, at + 2] = m0 * inverse, m1 * inverse, m2 * inverse
            out[r, at + 3] = np.float32(1.0)


@njit(fastmath=FAST)
def _multiply(rows: Floats, matrix: Floats, out: Floats) -> None:
    """out = rows @ matrix, for whole tiles of 8 rows and 16 columns."""
    count, columns = matrix.shape
    for r in range(0, rows.shape[0], PARTS):
        for c in range(0, columns, TILE_LANES):
            tile = zero_tile()
            for k in range(count):
                tile = add_outer(tile, rows, r * count + k, count, matrix, k * columns + c)
            store_parts(tile, out, r * columns + c, columns)


@njit(nogil=True, fastmath=FAST)
def add_local_scores(
    local: LocalTables,
    lists: NeighbourLists,
    config: KernelConfig,
    demand: Integers,
    state: LocalState,
    scores: Floats,
    seen: Observation,
) -> None:
    """Add the penalty relative to xi, and u_local, to the scores (R, P) of the neighbours and the depot."""
    x, node, rho, found, out = seen.features, seen.node, seen.rho, seen.found, seen.scores
    shift, tokens, states = 1 if config.has_depot else 0, x.shape[2], state.current.shape[0]
    _observe(lists, config, demand, state, seen)
    if config.use_local:
        _attend(local, seen, states)
        _multiply(seen.weights, local.readout, out)
    else:
        out[:] = np.float32(0.0)
    for r in range(states):
        if config.use_local:
            a, b, c = splat(out[r, tokens]), splat(out[r, tokens + 1]), splat(out[r, tokens + 2])
            x0, x1, x2 = 3 * r * tokens, (3 * r + 1) * tokens, (3 * r + 2) * tokens
            for t in range(0, tokens, LANES):
                at = r * out.shape[1] + t
                store(out, at, load(out, at) + a * load(x, x0 + t) + b * load(x, x1 + t) + c * load(x, x2 + t))
        if config.penalty:
            for t in range(found[r]):
                out[r, shift + t] += config.xi - rho[r, t]
        if config.has_depot:
            scores[r, 0] += out[r, 0]
        for t in range(found[r]):
            scores[r, node[r, t]] += out[r, shift + t]
