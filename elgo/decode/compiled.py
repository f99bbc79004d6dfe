"""The CPU fast path: the same rollouts as elgo.decode.rollout's plain path, from tables made once per task and compiled kernels.

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

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.global_policy import Encoding, split_heads

Floats = NDArray[np.float32]

LANES = 8  # nodes and tokens are padded to a multiple of this, so that vector loops have no rest
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
    values: Floats  # (H, d, N), d even
    slope: Floats  # (H, N) query_load . keys - row maximum
    readout: Floats  # (H * d, N) combine and node embeddings folded: glimpse @ readout + offset = u_global
    offset: Floats  # (N,)


class LocalTables(NamedTuple):
    """The local policy folded into tables; T = K tokens, or 1 + K with a depot, padded. The same for every task."""

    attend: Floats  # (H, 3) what a feature adds to a head's attention score
    attend_rank: Floats  # (H, T)
    readout: Floats  # (H * (T + 4), T + 4) from the weights of tokens, features and 1 to u_local: see _attend


class Plane(NamedTuple):
    """One task's geometry: presorted neighbour lists (the depot is in none) and what the local policy sees there."""

    coords: NDArray[np.float64]  # (N, 2)
    order: NDArray[np.uint32]  # (N, W) nodes by distance
    rho: Floats  # (N, W)
    first: Floats  # (N, W) rho, or dx in the Euclidean ablation: divided by the radius
    second: Floats  # (N, W) theta, or dy: divided by the radius only in the Euclidean ablation


class Rules(NamedTuple):
    """The scalars of the config that the kernels need."""

    neighbours: int
    clip: float
    xi: float
    penalty: bool
    use_global: bool
    use_local: bool
    euclidean: bool


def supports(config: PolicyConfig) -> bool:
    """Whether the kernels know this network; the plain path knows them all."""
    return config.local_layers == 0


def rules(config: PolicyConfig) -> Rules:
    return Rules(
        config.neighbours, config.clip, config.xi, config.penalty, config.global_policy, config.local_policy,
        config.coordinates == "euclidean",
    )  # fmt: skip


def numpy32(x: Tensor) -> Floats:
    return np.ascontiguousarray(x.detach().cpu().float().numpy())


def pad_nodes(x: Tensor) -> Tensor:
    """The last axis, padded with zeros to a multiple of LANES."""
    return torch.nn.functional.pad(x, (0, -x.shape[-1] % LANES))


def global_tables(policy: Policy, cache: Encoding, with_table: bool) -> list[GlobalTables]:
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
    values = torch.nn.functional.pad(cache.values.transpose(2, 3), (0, 0, 0, d % 2))
    slope = (load[:, None] @ keys).squeeze(2)
    slope = slope - slope.amax(-1, keepdim=True)  # a factor common to all nodes, which keeps exp() in range
    first_, last_ = (numpy32(x.unflatten(2, (heads, d))) for x in (first, last))
    table = _last_table(split_heads(last, heads), keys) if with_table else np.zeros((batch, 0, 0, 0), np.float32)
    per_task = (keys, values, slope, cache.readout.transpose(1, 2), cache.offset)
    keys_, values_, slope_, readout, offset = (numpy32(pad_nodes(x)) for x in per_task)
    load_ = numpy32(load)
    return [
        GlobalTables(table[i], first_[i], last_[i], load_, keys_[i], values_[i], slope_[i], readout[i], offset[i])
        for i in range(batch)
    ]


def _last_table(query: Tensor, keys: Tensor) -> Floats:
    """exp(q_last.k - row maximum) as (B, N, H, padded N)."""
    b, h, n, _ = query.shape
    out = np.zeros((b, n, h, n + -n % LANES), np.float32)  # numpy asks for huge pages, which random rows need
    for i in range(b):
        score = query[i] @ keys[i]
        score -= score.amax(-1, keepdim=True)
        torch.from_numpy(out[i])[:, :, :n] = score.exp_().transpose(0, 1)
    return out


def local_tables(policy: Policy) -> LocalTables:
    return LocalTables(*(numpy32(x) for x in local_tensors(policy)))


def local_tensors(policy: Policy) -> tuple[Tensor, Tensor, Tensor]:
    """The same as tensors, through which gradients flow."""
    net = policy.local
    heads, width = policy.config.local_heads, policy.config.local_width
    query = net.query(net.context).view(heads, 1, -1)
    folded = (query @ net.key.weight.view(heads, -1, width)).squeeze(1) / math.sqrt(width // heads)  # (H, E)
    rank = net.pe + net.embed.bias
    if net.has_depot:
        rank = torch.cat([net.pe[:1] + net.depot, rank[1:]])
    feature = torch.zeros(3, width, device=rank.device)
    feature[: net.embed.in_features] = net.embed.weight.T
    # h~_c = combine(concat_h(Wv_h pooled_h)): linear in the pooled tokens of each head, and these in the weights.
    value = net.value.weight.view(heads, -1, width)  # (H, f, E)
    combine = net.combine.weight.view(width, heads, -1)  # (E, H, f)
    mix = torch.einsum("hfe,ohf->heo", value, combine) / math.sqrt(width)
    tokens = len(rank) + -len(rank) % LANES
    rank = torch.nn.functional.pad(rank, (0, 0, 0, tokens - len(rank)))
    basis = torch.cat([rank, feature, torch.zeros(1, width)])  # (T + 4, E)
    summary = basis @ mix  # (H, T + 4, E)
    summary[0, -1] = net.combine.bias / math.sqrt(width)
    readout = summary.flatten(0, 1) @ basis.T
    return folded @ feature.T, folded @ rank.T, readout


def plane(coords: NDArray[np.float64], has_depot: bool, euclidean: bool) -> Plane:
    """Presorted neighbour lists of one task's nodes (N, 2)."""
    n, lowest = len(coords), int(has_depot)
    width = min(n - lowest, LIST_LIMIT)
    order = np.empty((n, width), np.uint32)
    rho, first, second = (np.empty((n, width), np.float32) for _ in range(3))
    for begin in range(0, n, 512):  # rows in chunks: the whole N x N matrix of doubles would not always fit
        rows = slice(begin, min(begin + 512, n))
        order[rows], rho[rows] = _nearest_rows(coords[rows], coords, lowest, width)
        dx, dy = np.moveaxis(coords[order[rows]] - coords[rows, None], 2, 0)
        first[rows] = dx if euclidean else rho[rows]
        second[rows] = dy if euclidean else np.arctan2(dy, dx)
    return Plane(coords, order, rho, first, second)


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


# --- kernels ---------------------------------------------------------------------------------------------------------
# `reassoc` lets sums be vectorised; `nnan` stays out except where the input is known to be finite.
FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(fastmath={"contract"})  # reassociation would cancel the rounding trick
def exp32(x):  # type: ignore[no-untyped-def]
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


@njit(fastmath=FAST)
def _multiply(first, r, last, c, h, rows, i):  # type: ignore[no-untyped-def]
    """rows[i] = first[r, h] * last[c, h]; their sum. Whole arrays and indices: views would be counted atomically."""
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = first[r, h, n] * last[c, h, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def _multiply_load(last, c, h, slope, load, is_open, r, rows, i):  # type: ignore[no-untyped-def]
    """rows[i] = last[c, h] * exp(load * slope[h]) where open; their sum."""
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = last[c, h, n] * exp32(load * slope[h, n]) * is_open[r, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def exponentials(rows, i, is_open, r):  # type: ignore[no-untyped-def]
    """rows[i] = exp(rows[i] - its maximum over open nodes) where open, 0 elsewhere, in place; its sum."""
    for n in range(rows.shape[1]):
        rows[i, n] = rows[i, n] if is_open[r, n] > 0 else CLOSED
    top = top_of(rows, i, 0, rows.shape[1])
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = exp32(rows[i, n] - top) * is_open[r, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def _query(tables, h, first, current, load, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] = tables.query_last[current, h, j] + load * tables.query_load[h, j]
        if tables.query_first.shape[0] > 0:
            out[j] += tables.query_first[first, h, j]


@njit(fastmath=FAST)
def _four_by_two(rows, values, h, j, out):  # type: ignore[no-untyped-def]
    """out[:, j : j + 2] = rows . values[h, j : j + 2]: 8 sums in registers share the loads, at BLAS speed."""
    a0, a1, b0, b1 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    c0, c1, d0, d1 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for n in range(rows.shape[1]):
        x, y = values[h, j, n], values[h, j + 1, n]
        a0 += rows[0, n] * x
        a1 += rows[0, n] * y
        b0 += rows[1, n] * x
        b1 += rows[1, n] * y
        c0 += rows[2, n] * x
        c1 += rows[2, n] * y
        d0 += rows[3, n] * x
        d1 += rows[3, n] * y
    out[0, j], out[0, j + 1], out[1, j], out[1, j + 1] = a0, a1, b0, b1
    out[2, j], out[2, j + 1], out[3, j], out[3, j + 1] = c0, c1, d0, d1


@njit(nogil=True, fastmath=FAST)
def _weigh_again(tables, h, first, current, load, is_open, r, rows, i):  # type: ignore[no-untyped-def]
    """rows[i] = the glimpse's weights straight from query and keys, for when the tables underflow; their sum."""
    query = np.empty(tables.query_load.shape[1], np.float32)
    _query(tables, h, first, current, load, query)
    rows[i] = np.float32(0.0)
    for j in range(query.shape[0]):
        rows[i] += query[j] * tables.keys[h, j]
    return exponentials(rows, i, is_open, r)


@njit(nogil=True, fastmath=FAST)
def _glimpse(tables, masked_first, first, current, load, is_open, rows, out):  # type: ignore[no-untyped-def]
    """The glimpse of a block of R rollouts into out (at least R, H * d). masked_first (R, H, N) has exp(q_first.k)."""
    rollouts, d = current.shape[0], tables.query_load.shape[1]
    total = np.empty(4, np.float32)
    part = np.empty((4, tables.values.shape[1]), np.float32)
    last, slope, values = tables.last, tables.slope, tables.values
    has_table, has_first = last.shape[0] > 0, masked_first.shape[0] > 0
    for h in range(tables.query_load.shape[0]):
        for begin in range(0, rollouts, 4):
            count = min(4, rollouts - begin)
            for i in range(count):
                r = begin + i
                if has_first:
                    sum_ = _multiply(masked_first, r, last, current[r], h, rows, i)
                elif has_table:
                    sum_ = _multiply_load(last, current[r], h, slope, load[r], is_open, r, rows, i)
                else:
                    sum_ = np.float32(0.0)
                if sum_ < UNDERFLOW:
                    sum_ = _weigh_again(tables, h, first[r], current[r], load[r], is_open, r, rows, i)
                total[i] = np.float32(1.0) / sum_
            for j in range(0, part.shape[1], 2):
                _four_by_two(rows, values, h, j, part)
            for i in range(count):
                for j in range(d):
                    out[begin + i, h * d + j] = part[i, j] * total[i]


@njit(nogil=True)
def _search_all(coords, lowest, current, is_open, count, euclidean, index, rho, first, second):  # type: ignore[no-untyped-def]
    """The `count` nearest open nodes by looking at every node: only when the presorted list is too short."""
    found = 0
    for n in range(lowest, is_open.shape[0]):
        if is_open[n] == 0:
            continue
        dx = coords[n, 0] - coords[current, 0]
        dy = coords[n, 1] - coords[current, 1]
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
def _walk(order, current, is_open, r, count, place):  # type: ignore[no-untyped-def]
    """Places of the `count` nearest open nodes in the list of `current`; how many there are in it."""
    found, j = 0, 0
    while found < count and j < order.shape[1]:  # without a branch on is_open, which no processor can predict
        place[found] = j
        found += np.int64(is_open[r, order[current, j]])
        j += 1
    return found


@njit(fastmath=FAST)
def _attend(local, x, r, absent, out):  # type: ignore[no-untyped-def]
    """Attention of the context vector over tokens with features x[r] (3, T), absent (T,) 0 or CLOSED.

    Into out[r] (H * (T + 4),), for each head: the weights of the tokens, the mean of each feature, 1.
    """
    tokens = x.shape[2]
    attend, rank = local.attend, local.attend_rank
    for h in range(attend.shape[0]):
        at = h * (tokens + 4)
        top = CLOSED
        for t in range(tokens):
            u = (
                attend[h, 0] * x[r, 0, t]
                + attend[h, 1] * x[r, 1, t]
                + attend[h, 2] * x[r, 2, t]
                + rank[h, t]
                + absent[t]
            )
            out[r, at + t] = u
        top = top_of(out, r, at, tokens)
        total, s0, s1, s2 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for t in range(tokens):
            w = exp32(out[r, at + t] - top)
            out[r, at + t] = w
            total += w
            s0 += w * x[r, 0, t]
            s1 += w * x[r, 1, t]
            s2 += w * x[r, 2, t]
        inverse = np.float32(1.0) / total
        for t in range(tokens):
            out[r, at + t] *= inverse
        at += tokens
        out[r, at], out[r, at + 1] = s0 * inverse, s1 * inverse
        out[r, at + 2], out[r, at + 3] = s2 * inverse, np.float32(1.0)


@njit(fastmath=FAST | {"nnan"})
def top_of(rows, r, at, count):  # type: ignore[no-untyped-def]
    best = CLOSED
    for i in range(at, at + count):
        best = max(best, rows[r, i])
    return best


@njit(nogil=True, fastmath=FAST)
def _see(plane, rule, depot, r, c, load, demand, is_open, opened, place, index, rho, absent, x):  # type: ignore[no-untyped-def]
    """One rollout's local view: neighbours' indices, rho / radius and features x (3, T); how many neighbours."""
    shift = 1 if depot else 0
    count = min(rule.neighbours, opened)
    found = _walk(plane.order, c, is_open, r, count, place)
    if found < count:
        found = _search_all(
            plane.coords,
            shift,
            c,
            is_open[r],
            count,
            rule.euclidean,
            index[r],
            rho[r],
            x[r, 0, shift:],
            x[r, 1, shift:],
        )
    else:
        for t in range(found):
            j = place[t]
            index[r, t], rho[r, t] = plane.order[c, j], plane.rho[c, j]
            x[r, 0, shift + t], x[r, 1, shift + t] = plane.first[c, j], plane.second[c, j]
    radius = rho[r, found - 1] if found > 0 else np.float32(0.0)
    inverse = np.float32(1.0) / radius if radius > 0 else np.float32(1.0)
    for t in range(found):
        x[r, 0, shift + t] *= inverse
        rho[r, t] *= inverse
    for t in range(absent.shape[0]):
        absent[t] = np.float32(0.0) if shift <= t and t < found + shift else CLOSED
    if rule.euclidean:
        for t in range(found):
            x[r, 1, shift + t] *= inverse
    if depot:
        absent[0] = np.float32(0.0) if is_open[r, 0] > 0 else CLOSED
        share = np.float32(1.0) / np.float32(max(load, 1))
        for t in range(found):
            x[r, 2, 1 + t] = np.float32(demand[index[r, t]]) * share
    return found


@njit(nogil=True)
def local_work(local, count):  # type: ignore[no-untyped-def]
    """Arrays for `add_local` of so many states; what it leaves in them is described there."""
    tokens = local.attend_rank.shape[1]
    return (
        np.zeros((count, 3, tokens), np.float32), np.zeros((count, tokens), np.int64),
        np.zeros((count, tokens + 1), np.float32), np.zeros(count, np.int64), np.zeros(tokens + 1, np.int64),
        np.zeros(tokens, np.float32), np.zeros((count, local.readout.shape[0]), np.float32),
        np.zeros((count, local.readout.shape[1]), np.float32),
    )  # fmt: skip


@njit(nogil=True, fastmath=FAST)
def add_local(local, plane, rule, depot, current, load, demand, is_open, opened, scores, work):  # type: ignore[no-untyped-def]
    """Penalty relative to xi and u_local of a block onto scores (R, N), in place."""
    x, index, rho, found, place, absent, weights, out = work
    shift = 1 if depot else 0
    tokens = x.shape[2]
    for r in range(current.shape[0]):
        found[r] = _see(
            plane, rule, depot, r, current[r], load[r], demand, is_open, opened[r], place, index, rho, absent, x
        )
        if rule.use_local:
            _attend(local, x, r, absent, weights)
    if rule.use_local:
        np.dot(weights, local.readout, out)
    else:
        out[:] = np.float32(0.0)
    for r in range(current.shape[0]):
        if rule.use_local:
            a, b, c = out[r, tokens], out[r, tokens + 1], out[r, tokens + 2]
            for t in range(tokens):
                out[r, t] += a * x[r, 0, t] + b * x[r, 1, t] + c * x[r, 2, t]
        if rule.penalty:
            for t in range(found[r]):
                out[r, shift + t] += rule.xi - rho[r, t]
        if depot:
            scores[r, 0] += out[r, 0]
        for t in range(found[r]):
            scores[r, index[r, t]] += out[r, shift + t]


@njit(fastmath=FAST | {"nnan"})
def _close(scores, r, base, is_open):  # type: ignore[no-untyped-def]
    """scores[r] += base where open, CLOSED elsewhere, in place; its maximum."""
    top = CLOSED
    for n in range(scores.shape[1]):
        u = scores[r, n] + base[n]
        u = u if is_open[r, n] > 0 else CLOSED
        scores[r, n] = u
        top = max(top, u)
    return top


@njit
def _best(scores, r, top, is_open):  # type: ignore[no-untyped-def]
    """The lowest index with the highest score, without an early exit so that it vectorises."""
    none = np.int32(scores.shape[1])
    best = none
    for n in range(none):
        best = min(best, np.int32(n) if scores[r, n] == top and is_open[r, n] > 0 else none)
    if best < none:
        return np.int64(best)
    for n in range(none):  # not a number anywhere: some open node, never an index out of bounds
        if is_open[r, n] > 0:
            return np.int64(n)
    return np.int64(-1)


@njit(fastmath={"contract"}, error_model="numpy")  # a check of the divisor would keep it from vectorising
def tanh32(x):  # type: ignore[no-untyped-def]
    return np.float32(1.0) - np.float32(2.0) / (exp32(x + x) + np.float32(1.0))


@njit(nogil=True, fastmath=FAST)
def _sample(row, best, is_open, clip, uniform):  # type: ignore[no-untyped-def]
    """A node drawn from softmax(clip * tanh(row)) over the open nodes by inverting the distribution at `uniform`.

    And the probability of the best.
    """
    top = tanh32(row[best])
    total = np.float32(0.0)
    for n in range(row.shape[0]):
        row[n] = exp32(np.float32(clip) * (tanh32(row[n]) - top)) * is_open[n]
        total += row[n]
    target = uniform * total
    chosen, mass = best, np.float32(0.0)
    for n in range(row.shape[0]):
        if row[n] > 0:
            chosen = n
            mass += row[n]
            if mass > target:
                break
    return chosen, np.float32(1.0) / total


@njit(nogil=True, fastmath=FAST)
def _first_factor(tables, starts, is_open, out):  # type: ignore[no-untyped-def]
    """exp(q_first.k - row maximum) of each start into out (R, H, N)."""
    row = np.empty((1, out.shape[2]), np.float32)
    for r in range(out.shape[0]):
        for h in range(out.shape[1]):
            np.dot(tables.query_first[starts[r], h : h + 1], tables.keys[h], row)
            exponentials(row, 0, is_open, r)
            out[r, h] = row[0]


@njit(nogil=True)
def mask_by_load(need, units, is_open, r):  # type: ignore[no-untyped-def]
    """is_open = whether the need of a customer fits into units; how many do. The depot needs more than there is."""
    count = 0
    for i in range(need.shape[1]):
        fits = need[r, i] <= units
        is_open[r, i] = np.float32(fits)
        count += fits
    return count


@njit(nogil=True, cache=True)
def run_block(tables, local, plane, rule, demand, capacity, starts, uniforms, actions, certainty, control):  # type: ignore[no-untyped-def]
    """Roll out R starts of one task to the end, writing actions and certainty (R, T); the number of actions used.

    demand (N,) int64 with the depot's 0 first, or empty in TSP. uniforms (R, T), or (0, 0) for greedy. control[0]
    counts the steps for whoever watches; the rollouts are abandoned once control[1] is not 0.
    """
    rollouts, n = starts.shape[0], plane.coords.shape[0]
    padded = tables.offset.shape[0]
    depot = demand.shape[0] > 0
    shift = 1 if depot else 0
    heads, d = tables.query_load.shape
    is_open = np.zeros((rollouts, padded), np.float32)
    is_open[:, :n] = np.float32(1.0)
    need = np.full((rollouts if depot else 0, padded), capacity + 1)  # demand of who is not served yet
    opened = np.empty(rollouts, np.int64)  # open nodes without the depot
    left = np.empty(rollouts, np.int64)
    current, units = starts.copy(), np.zeros(rollouts, np.int64)
    load = np.zeros(rollouts, np.float32)  # share of the capacity, for the query
    keep_first = tables.last.shape[0] > 0 and not depot
    masked_first = np.empty((rollouts if keep_first else 0, heads, padded), np.float32)
    if keep_first:
        _first_factor(tables, starts, is_open, masked_first)
    for r in range(rollouts):
        actions[r, 0] = starts[r]
        is_open[r, starts[r]] = np.float32(0.0)
        left[r] = n - shift - 1
        if depot:
            units[r] = capacity - demand[starts[r]]
            need[r, 1:n] = demand[1:]
            need[r, starts[r]] = capacity + 1
        for h in range(masked_first.shape[1] if keep_first else 0):
            masked_first[r, h, starts[r]] = np.float32(0.0)
    base = tables.offset.copy()
    if rule.penalty:
        base[shift:] -= rule.xi
    rows = np.zeros((4, padded), np.float32)
    scores = np.zeros((rollouts, padded), np.float32)
    glimpse = np.empty((rollouts, heads * d), np.float32)
    work = local_work(local, rollouts)
    t = 1
    while True:
        busy = False
        for r in range(rollouts):
            if depot:
                load[r] = np.float32(units[r]) / np.float32(capacity)
                opened[r] = mask_by_load(need, units[r], is_open, r)
                at_work = current[r] != 0 or left[r] > 0
                is_open[r, 0] = np.float32(1.0) if current[r] != 0 or left[r] == 0 else np.float32(0.0)
            else:
                opened[r] = left[r]
                at_work = left[r] > 0
            busy = busy or at_work
        if not busy or control[1] != 0:
            return t
        if rule.use_global:
            _glimpse(tables, masked_first, starts, current, load, is_open, rows, glimpse)
            np.dot(glimpse, tables.readout, scores)
        else:
            scores[:] = np.float32(0.0)
        if rule.penalty or rule.use_local:
            add_local(local, plane, rule, depot, current, units, demand, is_open, opened, scores, work)
        for r in range(rollouts):
            top = _close(scores, r, base, is_open)
            node = _best(scores, r, top, is_open)
            if uniforms.shape[0] > 0:
                node, certainty[r, t] = _sample(scores[r], node, is_open[r], rule.clip, uniforms[r, t])
            actions[r, t] = node
            current[r] = node
            if depot and node == 0:
                units[r] = capacity
                continue
            left[r] -= 1
            is_open[r, node] = np.float32(0.0)
            if depot:
                need[r, node] = capacity + 1
                units[r] -= demand[node]
            for h in range(masked_first.shape[1] if keep_first else 0):
                masked_first[r, h, node] = np.float32(0.0)
        t += 1
        control[0] = t
