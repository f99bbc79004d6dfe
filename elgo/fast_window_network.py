"""The network of a window policy in compiled kernels: the scores of many windows, each with as many tokens as it has.

The same as WindowPolicy.forward. The tokens of all windows lie one behind the other, so that every linear layer is one
matrix product without padding; attention goes through the windows one by one, with all of a window in the cache.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from torch import Tensor, nn

from elgo.decode.compiled import FAST, Floats, exp32
from elgo.window import WindowLayer, WindowPolicy


class Network(NamedTuple):
    """Weights of L layers; matrices take rows of inputs. The residuals' scales are in what comes before them."""

    anchor: Floats  # (A, E)
    anchor_bias: Floats  # (E,)
    nodes: Floats  # (F, E)
    rank: Floats  # (K, E) positional encoding and bias
    qkv: Floats  # (L, E, 3 E)
    combine: Floats  # (L, E, E)
    combine_bias: Floats  # (L, E)
    up: Floats  # (L, E, 4 E)
    up_bias: Floats  # (L, 4 E)
    down: Floats  # (L, 4 E, E)
    down_bias: Floats  # (L, E)
    slope: Floats  # (L, H)
    kin: Floats  # (L, H), or (L, 0) if the network does not look at it
    readout: Floats  # (E,), divided by the clip as is its bias
    readout_bias: Floats  # (1,)
    clip: float

    @property
    def sees_kin(self) -> bool:
        return self.kin.shape[1] > 0


def make_network(net: WindowPolicy) -> Network:
    layers = [layer for layer in net.layers if isinstance(layer, WindowLayer)]

    def scaled(linear: nn.Linear, scale: Tensor) -> tuple[Tensor, Tensor]:
        return scale[:, None] * linear.weight, scale * linear.bias

    combine = [scaled(layer.combine, layer.scale1) for layer in layers]
    down = [scaled(layer.down, layer.scale2) for layer in layers]
    return Network(
        _array(net.embed_anchor.weight.T),
        _array(net.embed_anchor.bias),
        _array(net.embed.weight.T),
        _array(net.pe + net.embed.bias),
        _stack([layer.qkv.weight.T for layer in layers]),
        _stack([weight.T for weight, _ in combine]),
        _stack([bias for _, bias in combine]),
        _stack([layer.up.weight.T for layer in layers]),
        _stack([layer.up.bias for layer in layers]),
        _stack([weight.T for weight, _ in down]),
        _stack([bias for _, bias in down]),
        _stack([layer.slope for layer in layers]),
        _stack([layer.slope[:0] if layer.kin is None else layer.kin for layer in layers]),
        _array(net.readout.weight[0] / net.clip),
        _array(net.readout.bias / net.clip),
        net.clip,
    )


def _array(values: Tensor) -> Floats:
    return np.ascontiguousarray(values.detach().float().numpy())


def _stack(values: list[Tensor]) -> Floats:
    return np.stack([_array(value) for value in values])


class Room(NamedTuple):
    """Where the tokens of S windows pass through the layers."""

    h: Floats  # (S (1 + K), E)
    wide: Floats  # (S (1 + K), 4 E)
    qkv: Floats  # (S (1 + K), 3 E)
    mixed: Floats  # (S (1 + K), E) what attention has found
    change: Floats  # (S (1 + K), E)
    distance: Floats  # (S, 1 + K, 1 + K)
    heads: Floats  # (7, at most (1 + K)^2 or (1 + K) E) one head of one window


def make_room(network: Network, windows: int) -> Room:
    tokens, width = 1 + len(network.rank), len(network.readout)
    rows = windows * tokens
    shapes = [
        (rows, width), (rows, 4 * width), (rows, 3 * width), (rows, width), (rows, width),
        (windows, tokens, tokens), (7, tokens * max(tokens, width)),
    ]  # fmt: skip
    return Room(*(np.empty(shape, np.float32) for shape in shapes))


@njit(nogil=True, cache=True)
def score(network, sight, rows, room, scores, slot):  # type: ignore[no-untyped-def]
    """The scores of some rows of a Sight (elgo.fast_window), as many as there is room for, into scores[slot[row]]."""
    end = 0
    for s in range(len(rows)):
        _embed(network, sight, rows[s], end, room.h)
        _measure(sight, rows[s], s, len(network.rank), room.distance)
        end += 1 + sight.found[rows[s]]
    h, wide, qkv = room.h[:end], room.wide[:end], room.qkv[:end]
    mixed, change = room.mixed[:end], room.change[:end]
    for layer in range(len(network.qkv)):
        np.dot(h, network.qkv[layer], qkv)
        begin = 0
        for s in range(len(rows)):
            tokens = 1 + sight.found[rows[s]]
            _attend(network, sight.kin, rows[s], layer, begin, tokens, s, room)
            begin += tokens
        np.dot(mixed, network.combine[layer], change)
        _add(h, change, network.combine_bias, layer)
        np.dot(h, network.up[layer], wide)
        _rectify(wide, network.up_bias, layer)
        np.dot(wide, network.down[layer], change)
        _add(h, change, network.down_bias, layer)
    begin = 0
    for s in range(len(rows)):
        for t in range(1 + sight.found[rows[s]]):
            scores[slot[rows[s]], t] = _dot(h, begin, network.readout) + network.readout_bias[0]
            begin += 1


@njit(nogil=True, fastmath=FAST)
def _embed(network, sight, r, begin, h):  # type: ignore[no-untyped-def]
    """The tokens of a window before the first layer into h[begin:]."""
    width = h.shape[1]
    for e in range(width):
        h[begin, e] = network.anchor_bias[e]
    for f in range(sight.anchor.shape[1]):
        x = sight.anchor[r, f]
        for e in range(width):
            h[begin, e] += x * network.anchor[f, e]
    for t in range(sight.found[r]):
        row = begin + 1 + t
        for e in range(width):
            h[row, e] = network.rank[t, e]
        for f in range(sight.nodes.shape[2]):
            x = sight.nodes[r, t, f]
            for e in range(width):
                h[row, e] += x * network.nodes[f, e]


@njit(nogil=True, fastmath=FAST)
def _measure(sight, r, s, k, distance):  # type: ignore[no-untyped-def]
    """How far the tokens of a window are from each other: about 1 between neighbours."""
    unit = np.float32(math.sqrt(k))
    for t in range(1 + sight.found[r]):
        x, y = (sight.anchor[r, 0], np.float32(0.0)) if t == 0 else (sight.nodes[r, t - 1, 0], sight.nodes[r, t - 1, 1])
        for u in range(1 + sight.found[r]):
            dx = (sight.anchor[r, 0] if u == 0 else sight.nodes[r, u - 1, 0]) - x
            dy = (np.float32(0.0) if u == 0 else sight.nodes[r, u - 1, 1]) - y
            distance[s, t, u] = unit * np.sqrt(dx * dx + dy * dy)


@njit(nogil=True)
def _attend(network, kin, r, layer, begin, tokens, s, room):  # type: ignore[no-untyped-def]
    """Attention among the tokens of one window, per head less for distance and more for kin.

    Weights stand in columns, one for each query: so the softmax goes along rows. Distance and kin are symmetric.
    """
    heads, width = network.slope.shape[1], room.mixed.shape[1]
    size = width // heads
    query, value = _shaped(room.heads, 0, size, tokens), _shaped(room.heads, 1, tokens, size)
    keys, found = _shaped(room.heads, 2, tokens, size), _shaped(room.heads, 3, tokens, size)
    weight = _shaped(room.heads, 4, tokens, tokens)
    for head in range(heads):
        _take_head(room.qkv, begin, head * size, query, keys, value)
        np.dot(keys, query, weight)
        _weigh(weight, room.distance, s, network.slope[layer, head])
        if kin.shape[0] > 0:
            _weigh(weight, kin, r, -network.kin[layer, head])
        _exp(weight, room.heads[5], room.heads[6])
        np.dot(weight.T, value, found)
        for t in range(tokens):
            share = np.float32(1.0) / room.heads[6, t]
            for d in range(size):
                room.mixed[begin + t, head * size + d] = share * found[t, d]


@njit(nogil=True, inline="always")
def _shaped(heads, i, rows, columns):  # type: ignore[no-untyped-def]
    return heads[i, : rows * columns].reshape(rows, columns)


@njit(nogil=True, fastmath=FAST)
def _take_head(qkv, begin, at, query, keys, value):  # type: ignore[no-untyped-def]
    """Queries, keys and values of one head, side by side for BLAS."""
    size, tokens = query.shape
    width = qkv.shape[1] // 3
    scale = np.float32(1 / math.sqrt(size))
    for t in range(tokens):
        for d in range(size):
            query[d, t] = qkv[begin + t, at + d] * scale
            keys[t, d] = qkv[begin + t, width + at + d]
            value[t, d] = qkv[begin + t, 2 * width + at + d]


@njit(nogil=True, fastmath=FAST)
def _weigh(weight, table, i, slope):  # type: ignore[no-untyped-def]
    """Less where the table (S, 1 + K, 1 + K) has more."""
    for t in range(weight.shape[0]):
        for u in range(weight.shape[1]):
            weight[t, u] -= slope * table[i, t, u]


@njit(nogil=True, fastmath=FAST)
def _exp(weight, top, total):  # type: ignore[no-untyped-def]
    """exp of all weights (T, T) less the largest of their column, and the sums of the columns."""
    count = weight.shape[1]
    for t in range(count):
        top[t], total[t] = weight[0, t], np.float32(0.0)
    for u in range(1, count):
        for t in range(count):
            top[t] = max(top[t], weight[u, t])
    for u in range(count):
        for t in range(count):
            weight[u, t] = exp32(weight[u, t] - top[t])
        for t in range(count):
            total[t] += weight[u, t]


@njit(nogil=True, fastmath=FAST)
def _add(h, change, bias, layer):  # type: ignore[no-untyped-def]
    for i in range(h.shape[0]):
        for e in range(h.shape[1]):
            h[i, e] += change[i, e] + bias[layer, e]


@njit(nogil=True, fastmath=FAST)
def _rectify(wide, bias, layer):  # type: ignore[no-untyped-def]
    for i in range(wide.shape[0]):
        for e in range(wide.shape[1]):
            wide[i, e] = max(wide[i, e] + bias[layer, e], np.float32(0.0))


@njit(nogil=True, fastmath=FAST)
def _dot(h, i, vector):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for e in range(len(vector)):
        total += h[i, e] * vector[e]
    return total
