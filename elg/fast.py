"""The CPU fast path: the same rollouts as `decode.plain`, from tables made once per task and compiled kernels.

What makes it fast (figures in docs/design.md, measured by benchmarks/decode.py):

- The glimpse's weights split into factors that do not change: exp(q.k) = exp(q_last.k) * exp(q_first.k) in TSP and
  exp(q_last.k) * exp(load * q_load.k) in CVRP. The first is an N x N table per head, so a step only multiplies rows.
- A block of rollouts runs to its end in one kernel without the interpreter lock; its rows meet the values and the
  keys in matrix products large enough for BLAS and small enough for the cache.
- The K nearest valid nodes come from walking a presorted list. The local network is linear in its few features, so
  the tokens (rank encoding included) are folded into small tables and never built.

Every kernel has its plain twin: tests hold the tours of both paths equal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from elg.policy import Cache, LocalPolicy, Policy, PolicyConfig, split_heads

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

LIST_LIMIT = 1024  # longest presorted neighbour list; beyond it the kernel searches all nodes
CLOSED = np.float32(-1e30)  # a finite minus infinity, safe for compilers that assume there are no infinities
UNDERFLOW = np.float32(1e-25)  # a glimpse whose weights sum to less is recomputed without the tables


class GlobalTables(NamedTuple):
    """One task's share of the global policy, ready for the kernels. H heads of width d."""

    last: Floats  # (N, H, N) exp(q_last.k - row maximum), or (0, 0, 0) when it does not fit into memory
    query_first: Floats  # (N, H, d) TSP; (0, H, d) in CVRP
    query_last: Floats  # (N, H, d), scaled by 1 / sqrt(d)
    query_load: Floats  # (H, d) CVRP: what a full load adds to the query; zeros in TSP
    keys: Floats  # (H, d, N)
    values: Floats  # (H, N, d)
    slope: Floats  # (H, N) query_load . keys - row maximum
    readout: Floats  # (H * d, N) combine and node embeddings folded: glimpse @ readout + offset = u_global
    offset: Floats  # (N,)


class LocalTables(NamedTuple):
    """The local policy folded into tables; T = K tokens, or 1 + K with a depot. The same for every task."""

    attend: Floats  # (H, 3) what a feature adds to a head's attention score
    attend_rank: Floats  # (H, T)
    feature: Floats  # (3, E) the rows of W
    rank: Floats  # (T, E) b + PE(rank), or the depot's own vector
    mix: Floats  # (H * E, E) value and combine folded: pooled tokens -> h~_c, over sqrt(E)
    mix_offset: Floats  # (E,)
    rank_readout: Floats  # (E, T) the transpose of rank


class Plane(NamedTuple):
    """One task's geometry: presorted neighbour lists (the depot is in none) and what the local policy sees there."""

    coords: NDArray[np.float64]  # (N, 2)
    order: Ints  # (N, W) nodes by distance
    rho: Floats  # (N, W)
    first: Floats  # (N, W) rho, or dx in the Euclidean ablation: divided by the radius
    second: Floats  # (N, W) theta, or dy: divided by the radius only in the Euclidean ablation
    depot: Floats  # (N, 3) distance and two features of the depot seen from each node


class Rules(NamedTuple):
    """The scalars of the config that the kernels need."""

    neighbours: int
    clip: float
    xi: float
    penalty: bool
    use_global: bool
    use_local: bool
    euclidean: bool
    depot_polar: bool


def supports(config: PolicyConfig) -> bool:
    """Whether the kernels know this network; the plain path knows them all."""
    return config.local_layers == 0


def rules(config: PolicyConfig) -> Rules:
    return Rules(
        config.neighbours, config.clip, config.xi, config.penalty, config.global_policy, config.local_policy,
        config.coordinates == "euclidean", config.depot == "polar",
    )  # fmt: skip


def numpy32(x: Tensor) -> Floats:
    return np.ascontiguousarray(x.detach().cpu().float().numpy())


def global_tables(policy: Policy, cache: Cache, with_table: bool) -> list[GlobalTables]:
    """The tables of each task of an encoded, unpadded batch."""
    net, batch = policy.global_, cache.batch.coords.shape[0]
    heads, d = policy.config.heads, policy.config.width // policy.config.heads
    if net is None:
        none = np.zeros((0, 0, 0), np.float32)
        flat = np.zeros((heads, d), np.float32)
        zero = np.zeros(cache.batch.coords.shape[1], np.float32)
        return [GlobalTables(none, none, none, flat, none, none, flat, flat, zero)] * batch
    scale = 1 / math.sqrt(d)
    first = cache.query_last[:, :0] if cache.query_first is None else cache.query_first * scale
    last = cache.query_last * scale
    load = (last.new_zeros(heads * d) if net.query_load is None else net.query_load.weight[:, 0] * scale).view(heads, d)
    keys = cache.keys.transpose(2, 3)  # (B, H, d, N)
    slope = (load[:, None] @ keys).squeeze(2)
    slope = slope - slope.amax(-1, keepdim=True)  # a factor common to all nodes, which keeps exp() in range
    first_, last_ = (numpy32(x.unflatten(2, (heads, d))) for x in (first, last))
    table = _last_table(split_heads(last, heads), keys) if with_table else np.zeros((batch, 0, 0, 0), np.float32)
    per_task = (keys, cache.values, slope, cache.readout.transpose(1, 2), cache.offset)
    keys_, values, slope_, readout, offset = map(numpy32, per_task)
    load_ = numpy32(load)
    return [
        GlobalTables(table[i], first_[i], last_[i], load_, keys_[i], values[i], slope_[i], readout[i], offset[i])
        for i in range(batch)
    ]


def _last_table(query: Tensor, keys: Tensor) -> Floats:
    """exp(q_last.k - row maximum) as (B, N, H, N)."""
    score = (query @ keys).transpose(1, 2).contiguous()
    score -= score.amax(-1, keepdim=True)
    return numpy32(score.exp_())


def local_tables(policy: Policy) -> LocalTables:
    net: LocalPolicy = policy.local
    heads, width = policy.config.local_heads, policy.config.local_width
    query = net.query(net.context).view(heads, 1, -1)
    folded = (query @ net.key.weight.view(heads, -1, width)).squeeze(1) / math.sqrt(width // heads)  # (H, E)
    rank = net.pe + net.embed.bias
    if net.has_depot and policy.config.depot == "token":
        rank = torch.cat([net.pe[:1] + net.depot, rank[1:]])
    feature = torch.zeros(3, width, device=rank.device)
    feature[: net.embed.in_features] = net.embed.weight.T
    # h~_c = combine(concat_h(Wv_h pooled_h)): one (H * E, E) matrix acts on the pooled tokens of all heads.
    value = net.value.weight.view(heads, -1, width)  # (H, f, E)
    combine = net.combine.weight.view(width, heads, -1)  # (E, H, f)
    mix = torch.einsum("hfe,ohf->heo", value, combine).reshape(heads * width, width) / math.sqrt(width)
    parts = (folded @ feature.T, folded @ rank.T, feature, rank, mix, net.combine.bias / math.sqrt(width), rank.T)
    return LocalTables(*map(numpy32, parts))


def plane(coords: NDArray[np.float64], has_depot: bool, euclidean: bool) -> Plane:
    """Presorted neighbour lists of one task's nodes (N, 2)."""
    n, lowest = len(coords), int(has_depot)
    width = min(n - lowest, LIST_LIMIT)
    order = np.empty((n, width), np.int32)
    rho, first, second = (np.empty((n, width), np.float32) for _ in range(3))
    for begin in range(0, n, 512):  # rows in chunks: the whole N x N matrix of doubles would not always fit
        rows = slice(begin, min(begin + 512, n))
        order[rows], rho[rows] = _nearest_rows(coords[rows], coords, lowest, width)
        dx, dy = np.moveaxis(coords[order[rows]] - coords[rows, None], 2, 0)
        first[rows] = dx if euclidean else rho[rows]
        second[rows] = dy if euclidean else np.arctan2(dy, dx)
    return Plane(coords, order, rho, first, second, _depot_view(coords, euclidean))


def _nearest_rows(
    here: NDArray[np.float64], coords: NDArray[np.float64], lowest: int, width: int
) -> tuple[NDArray[np.int64], Floats]:
    """The `width` nearest nodes (from `lowest` on) of each point, nearest first, and their distances."""
    dx, dy = (coords[None, lowest:, axis] - here[:, None, axis] for axis in (0, 1))
    rho = np.sqrt(dx * dx + dy * dy).astype(np.float32)  # rounded as in policy.nearest, and sorted by the same key
    key = rho.view(np.int32).astype(np.int64) << 32 | np.arange(lowest, len(coords))
    if width < key.shape[1]:
        key = np.partition(key, width - 1, axis=1)[:, :width]
    key = np.sort(key, axis=1)
    return key & 0xFFFFFFFF, (key >> 32).astype(np.int32).view(np.float32)


def _depot_view(coords: NDArray[np.float64], euclidean: bool) -> Floats:
    dx, dy = (coords[0] - coords).T
    distance = np.sqrt(dx * dx + dy * dy)
    pair = (dx, dy) if euclidean else (distance, np.arctan2(dy, dx))
    return np.stack([distance, *pair], axis=1).astype(np.float32)


# --- kernels ---------------------------------------------------------------------------------------------------------
# `reassoc` lets sums be vectorised; `nnan` stays out except in `_maximum`, whose input is known to be finite.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(fastmath={"contract"})  # reassociation would cancel the rounding trick
def _exp(x):  # type: ignore[no-untyped-def]
    """exp of a float32 to within 2 ulp, in arithmetic that vectorises (the C library's does not)."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    shifted = x * np.float32(1.4426950408889634) + np.float32(12582912.0)
    k = shifted - np.float32(12582912.0)
    f = (x - k * np.float32(0.693359375)) - k * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    p = p * f * f + f + np.float32(1.0)
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(fastmath=FAST | {"nnan"})
def _maximum(row):  # type: ignore[no-untyped-def]
    best = row[0]
    for i in range(row.shape[0]):
        best = max(best, row[i])
    return best


@njit(fastmath=FAST)
def _multiply(a, b, out):  # type: ignore[no-untyped-def]
    """out = a * b; the sum of out."""
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        w = a[i] * b[i]
        out[i] = w
        total += w
    return total


@njit(fastmath=FAST)
def _multiply_load(a, slope, load, is_open, out):  # type: ignore[no-untyped-def]
    """out = a * exp(load * slope) where open; the sum of out."""
    total = np.float32(0.0)
    for i in range(a.shape[0]):
        w = a[i] * _exp(load * slope[i]) * is_open[i]
        out[i] = w
        total += w
    return total


@njit(fastmath=FAST)
def _exponentials(row, is_open):  # type: ignore[no-untyped-def]
    """row = exp(row - its maximum over open nodes) where open, 0 elsewhere, in place; its sum."""
    for i in range(row.shape[0]):
        row[i] = row[i] if is_open[i] > 0 else CLOSED
    top = _maximum(row)
    total = np.float32(0.0)
    for i in range(row.shape[0]):
        w = _exp(row[i] - top) * is_open[i]
        row[i] = w
        total += w
    return total


@njit(fastmath=FAST)
def _recompute(tables, h, query, is_open, out):  # type: ignore[no-untyped-def]
    """The glimpse's weights of one rollout and head straight from query and keys, for when the tables underflow."""
    out[:] = np.float32(0.0)
    for j in range(query.shape[0]):
        out += query[j] * tables.keys[h, j]
    return _exponentials(out, is_open)


@njit(nogil=True, fastmath=FAST)
def _query(tables, h, first, current, load, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] = tables.query_last[current, h, j] + load * tables.query_load[h, j]
        if tables.query_first.shape[0] > 0:
            out[j] += tables.query_first[first, h, j]


@njit(nogil=True, fastmath=FAST)
def _global_scores(tables, masked_first, first, current, load, is_open, weights, glimpse, scores):  # type: ignore[no-untyped-def]
    """u_global of a block of R rollouts into scores (R, N). masked_first (R, H, N) has exp(q_first.k) of open nodes."""
    rollouts = current.shape[0]
    heads, d = tables.query_load.shape
    part = np.empty((rollouts, d), np.float32)
    queries = np.empty((rollouts, d), np.float32)
    total = np.empty(rollouts, np.float32)
    for h in range(heads):
        for r in range(rollouts):
            _query(tables, h, first[r], current[r], load[r], queries[r])
        if tables.last.shape[0] == 0:
            np.dot(queries, tables.keys[h], weights)
        for r in range(rollouts):
            if tables.last.shape[0] == 0:
                total[r] = _exponentials(weights[r], is_open[r])
            elif masked_first.shape[0] > 0:
                total[r] = _multiply(masked_first[r, h], tables.last[current[r], h], weights[r])
            else:
                total[r] = _multiply_load(tables.last[current[r], h], tables.slope[h], load[r], is_open[r], weights[r])
            if total[r] < UNDERFLOW:
                total[r] = _recompute(tables, h, queries[r], is_open[r], weights[r])
        np.dot(weights, tables.values[h], part)
        for r in range(rollouts):
            inverse = np.float32(1.0) / total[r]
            for j in range(d):
                glimpse[r, h * d + j] = part[r, j] * inverse
    np.dot(glimpse, tables.readout, scores)
    for r in range(rollouts):
        for n in range(scores.shape[1]):
            scores[r, n] += tables.offset[n]


@njit(nogil=True)
def _search_all(plane, lowest, current, is_open, count, euclidean, index, rho, first, second):  # type: ignore[no-untyped-def]
    """The `count` nearest open nodes by looking at every node: only when the presorted list is too short."""
    found = 0
    for n in range(lowest, is_open.shape[0]):
        if is_open[n] == 0:
            continue
        dx = plane.coords[n, 0] - plane.coords[current, 0]
        dy = plane.coords[n, 1] - plane.coords[current, 1]
        distance = np.float32(math.sqrt(dx * dx + dy * dy))
        if found == count and distance >= rho[count - 1]:
            continue
        at = found if found < count else count - 1
        while at > 0 and rho[at - 1] > distance:
            index[at], rho[at], first[at], second[at] = index[at - 1], rho[at - 1], first[at - 1], second[at - 1]
            at -= 1
        index[at], rho[at] = n, distance
        first[at] = np.float32(dx) if euclidean else distance
        second[at] = np.float32(dy) if euclidean else np.float32(math.atan2(dy, dx))
        found = min(found + 1, count)
    return found


@njit(nogil=True)
def _neighbours(plane, lowest, current, is_open, count, euclidean, index, rho, first, second):  # type: ignore[no-untyped-def]
    """The `count` nearest open nodes of `current`, nearest first, with their features; how many there are."""
    found = 0
    for j in range(plane.order.shape[1]):
        if found == count:
            break
        n = plane.order[current, j]
        if is_open[n] > 0:
            index[found], rho[found] = n, plane.rho[current, j]
            first[found], second[found] = plane.first[current, j], plane.second[current, j]
            found += 1
    if found < count:
        found = _search_all(plane, lowest, current, is_open, count, euclidean, index, rho, first, second)
    return found


@njit(nogil=True, fastmath=FAST)
def _pool(local, x, begin, end, weight, pooled):  # type: ignore[no-untyped-def]
    """Attention of the context vector over tokens begin..end with features x (3, T): pooled tokens (H * E,)."""
    heads, width = local.attend.shape[0], local.rank.shape[1]
    for h in range(heads):
        top = CLOSED
        for t in range(begin, end):
            weight[t] = (
                local.attend[h, 0] * x[0, t] + local.attend[h, 1] * x[1, t] + local.attend[h, 2] * x[2, t]
                + local.attend_rank[h, t]
            )  # fmt: skip
            top = max(top, weight[t])
        total = np.float32(0.0)
        for t in range(begin, end):
            weight[t] = _exp(weight[t] - top)
            total += weight[t]
        out = pooled[h * width : (h + 1) * width]
        out[:] = np.float32(0.0)
        s0, s1, s2 = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for t in range(begin, end):
            w = weight[t]
            s0, s1, s2 = s0 + w * x[0, t], s1 + w * x[1, t], s2 + w * x[2, t]
            for e in range(width):
                out[e] += w * local.rank[t, e]
        inverse = np.float32(1.0) / total
        for e in range(width):
            out[e] = (out[e] + s0 * local.feature[0, e] + s1 * local.feature[1, e] + s2 * local.feature[2, e]) * inverse


@njit(nogil=True, fastmath=FAST)
def _add_local(local, plane, rule, depot, current, load, demand, is_open, opened, scores, work):  # type: ignore[no-untyped-def]
    """Penalty and u_local of a block onto scores (R, N), in place. The penalty enters relative to xi: a constant
    over all nodes changes no probability before tanh is taken, so xi itself is subtracted here too."""
    x, index, rho, found, weight, pooled, summary, rank_score = work
    shift = 1 if depot else 0
    for r in range(current.shape[0]):
        c = current[r]
        first, second = x[r, 0, shift:], x[r, 1, shift:]
        count = min(rule.neighbours, opened[r])
        found[r] = _neighbours(plane, shift, c, is_open[r], count, rule.euclidean, index[r], rho[r], first, second)
        radius = rho[r, found[r] - 1] if found[r] > 0 else np.float32(0.0)
        if radius <= 0:
            radius = np.float32(1.0)
        for t in range(found[r]):
            first[t] /= radius
            rho[r, t] /= radius
            if rule.euclidean:
                second[t] /= radius
            if depot:
                x[r, 2, 1 + t] = np.float32(demand[index[r, t]]) / np.float32(max(load[r], 1))
        if depot:
            x[r, 0, 0], x[r, 1, 0], x[r, 2, 0] = np.float32(0.0), np.float32(0.0), np.float32(0.0)
            away = np.float32(0.0)
            if rule.depot_polar:
                away = plane.depot[c, 0] / radius
                x[r, 0, 0] = plane.depot[c, 1] / radius
                x[r, 1, 0] = plane.depot[c, 2] / radius if rule.euclidean else plane.depot[c, 2]
            if rule.penalty:
                scores[r, 0] -= away
        if rule.penalty:
            for n in range(shift, scores.shape[1]):
                scores[r, n] -= rule.xi
            for t in range(found[r]):
                scores[r, index[r, t]] += rule.xi - rho[r, t]
        begin = 0 if not depot or is_open[r, 0] > 0 else 1
        if begin < found[r] + shift:
            _pool(local, x[r], begin, found[r] + shift, weight, pooled[r])
    if not rule.use_local:
        return
    np.dot(pooled, local.mix, summary)
    for r in range(current.shape[0]):
        for e in range(summary.shape[1]):
            summary[r, e] += local.mix_offset[e]
    np.dot(summary, local.rank_readout, rank_score)
    for r in range(current.shape[0]):
        a, b, d = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for e in range(summary.shape[1]):
            a += summary[r, e] * local.feature[0, e]
            b += summary[r, e] * local.feature[1, e]
            d += summary[r, e] * local.feature[2, e]
        if depot:
            scores[r, 0] += rank_score[r, 0] + a * x[r, 0, 0] + b * x[r, 1, 0] + d * x[r, 2, 0]
        for t in range(found[r]):
            s = shift + t
            scores[r, index[r, t]] += rank_score[r, s] + a * x[r, 0, s] + b * x[r, 1, s] + d * x[r, 2, s]


@njit(nogil=True)
def _best(row, is_open):  # type: ignore[no-untyped-def]
    """The open node with the highest score, the lower index among equals. Closes the others in `row`."""
    for n in range(row.shape[0]):
        row[n] = row[n] if is_open[n] > 0 else CLOSED
    top = _maximum(row)
    for n in range(row.shape[0]):
        if row[n] == top and is_open[n] > 0:
            return n
    for n in range(row.shape[0]):  # not a number anywhere: some open node, never an index out of bounds
        if is_open[n] > 0:
            return n
    return -1


@njit(fastmath={"contract"})
def _tanh(x):  # type: ignore[no-untyped-def]
    return np.float32(1.0) - np.float32(2.0) / (_exp(x + x) + np.float32(1.0))


@njit(nogil=True, fastmath=FAST)
def _sample(row, is_open, clip, uniform):  # type: ignore[no-untyped-def]
    """A node drawn from softmax(clip * tanh(row)) over the open nodes by inverting the distribution at `uniform`."""
    best = _best(row, is_open)
    top = _tanh(row[best])
    total = np.float32(0.0)
    for n in range(row.shape[0]):
        row[n] = _exp(np.float32(clip) * (_tanh(row[n]) - top)) * is_open[n]
        total += row[n]
    target = uniform * total
    chosen, mass = best, np.float32(0.0)
    for n in range(row.shape[0]):
        if row[n] > 0:
            chosen = n
            mass += row[n]
            if mass > target:
                break
    return chosen


@njit(nogil=True, fastmath=FAST)
def _first_factor(tables, starts, is_open, out):  # type: ignore[no-untyped-def]
    """exp(q_first.k - row maximum) of each start into out (R, H, N)."""
    row = np.empty((1, out.shape[2]), np.float32)
    for r in range(out.shape[0]):
        for h in range(out.shape[1]):
            np.dot(tables.query_first[starts[r], h : h + 1], tables.keys[h], row)
            _exponentials(row[0], is_open[r])
            out[r, h] = row[0]


@njit(nogil=True, cache=True)
def run_block(tables, local, plane, rule, demand, capacity, starts, uniforms, actions, control):  # type: ignore[no-untyped-def]
    """Roll out R starts of one task to the end, writing actions (R, T); the number of actions used.

    demand (N,) int64 with the depot's 0 first, or empty in TSP. uniforms (R, T), or (0, 0) for greedy. control[0]
    counts the steps for whoever watches; the rollouts are abandoned once control[1] is not 0.
    """
    rollouts, n = starts.shape[0], plane.coords.shape[0]
    depot = demand.shape[0] > 0
    shift = 1 if depot else 0
    heads, d = tables.query_load.shape
    tokens, width = local.rank.shape
    unvisited = np.ones((rollouts, n), np.uint8)
    is_open = np.ones((rollouts, n), np.float32)
    opened = np.empty(rollouts, np.int64)  # open nodes without the depot
    left = np.empty(rollouts, np.int64)
    current, units = starts.copy(), np.zeros(rollouts, np.int64)
    load = np.zeros(rollouts, np.float32)  # share of the capacity, for the query
    keep_first = tables.last.shape[0] > 0 and not depot
    masked_first = np.empty((rollouts if keep_first else 0, heads, n), np.float32)
    if keep_first:
        _first_factor(tables, starts, is_open, masked_first)
    for r in range(rollouts):
        actions[r, 0] = starts[r]
        unvisited[r, starts[r]], is_open[r, starts[r]] = 0, np.float32(0.0)
        left[r] = n - shift - 1
        units[r] = capacity - demand[starts[r]] if depot else 0
        for h in range(masked_first.shape[1] if keep_first else 0):
            masked_first[r, h, starts[r]] = np.float32(0.0)
    weights = np.empty((rollouts, n), np.float32)
    scores = np.zeros((rollouts, n), np.float32)
    glimpse = np.empty((rollouts, heads * d), np.float32)
    work = (
        np.zeros((rollouts, 3, tokens), np.float32), np.zeros((rollouts, tokens), np.int64),
        np.zeros((rollouts, tokens), np.float32), np.zeros(rollouts, np.int64), np.empty(tokens, np.float32),
        np.zeros((rollouts, local.mix.shape[0]), np.float32), np.empty((rollouts, width), np.float32),
        np.empty((rollouts, tokens), np.float32),
    )  # fmt: skip
    t = 1
    while True:
        busy = False
        for r in range(rollouts):
            if depot:
                load[r] = np.float32(units[r]) / np.float32(capacity)
                count = 0
                for i in range(1, n):
                    fits = unvisited[r, i] > 0 and demand[i] <= units[r]
                    is_open[r, i] = np.float32(1.0) if fits else np.float32(0.0)
                    count += fits
                opened[r] = count
                at_work = current[r] != 0 or left[r] > 0
                is_open[r, 0] = np.float32(1.0) if current[r] != 0 or left[r] == 0 else np.float32(0.0)
            else:
                opened[r] = left[r]
                at_work = left[r] > 0
            busy = busy or at_work
        if not busy or control[1] != 0:
            return t
        if rule.use_global:
            _global_scores(tables, masked_first, starts, current, load, is_open, weights, glimpse, scores)
        else:
            scores[:] = np.float32(0.0)
        if rule.penalty or rule.use_local:
            _add_local(local, plane, rule, depot, current, units, demand, is_open, opened, scores, work)
        for r in range(rollouts):
            if uniforms.shape[0] > 0:
                node = _sample(scores[r], is_open[r], rule.clip, uniforms[r, t])
            else:
                node = _best(scores[r], is_open[r])
            actions[r, t] = node
            current[r] = node
            if depot and node == 0:
                units[r] = capacity
                continue
            left[r] -= 1
            unvisited[r, node], is_open[r, node] = 0, np.float32(0.0)
            if depot:
                units[r] -= demand[node]
            for h in range(masked_first.shape[1] if keep_first else 0):
                masked_first[r, h, node] = np.float32(0.0)
        t += 1
        control[0] = t
