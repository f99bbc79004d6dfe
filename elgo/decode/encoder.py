"""The encoder of the global policy without torch: one compiled kernel for a layer, with BLAS for its linear parts.

The twin of `elgo.model.global_policy`, for tasks of one size; tests compare the two. B tasks, N nodes, H heads, D wide,
d = D / H. The linear parts are products with the nodes of all tasks at once. Attention goes by tiles of 8 queries:
products with a head's 16 features are too narrow for BLAS.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from elgo.decode.arithmetic import FAST, Floats, Integers, exp32, row_maximum
from elgo.decode.tiles import LANES, PARTS, add_outer, store_parts, zero_tile
from elgo.jit.cache import cached_njit
from elgo.model.checkpoint import Weights
from elgo.problem.task import Task

ROWS = 256  # nodes that pass through the feed-forward block at once: what is between its layers stays in the cache


class Encoding(NamedTuple):
    """All that the decoder needs of the nodes of one task."""

    query_last: Floats  # (N, D) what a node adds to the query as the current one
    query_first: Floats | None  # (N, D) TSP: what it adds as the first one
    keys: Floats  # (N, D)
    values: Floats  # (N, D)
    readout: Floats  # (N, D) and
    offset: Floats  # (N,): u_global = heads of the glimpse . readout + offset


class LayerWeights(NamedTuple):
    """The parameters of an encoder layer, as torch has them: a product is x @ weight.T + bias."""

    qkv: Floats  # (3 D, D)
    combine: Floats  # (D, D)
    combine_bias: Floats
    norm1: Floats  # (D,)
    norm1_bias: Floats
    up: Floats  # (hidden, D)
    up_bias: Floats
    down: Floats  # (D, hidden)
    down_bias: Floats
    norm2: Floats
    norm2_bias: Floats


def encode(weights: Weights, task: Task, stop: Integers | None = None) -> Encoding:
    """Return the encoding of a task, whose coordinates are normalised; at once, and wrong, when stop[0] is not 0."""
    return encode_batch(weights, [task], stop)[0]


def encode_batch(weights: Weights, tasks: Sequence[Task], stop: Integers | None = None) -> list[Encoding]:
    """Return the encodings of tasks of one size as `encode` does; they do not depend on each other."""
    batch = embeddings(weights, tasks, np.zeros(1, np.int64) if stop is None else stop)
    shape, nodes = batch.shape, batch.reshape(-1, batch.shape[2])
    scale = np.float32(1 / math.sqrt(weights.config.width))
    tensors = {name: weights.tensors[f"global_.{name}.weight"] for name in ("query_last", "key", "value", "combine")}
    first = weights.tensors.get("global_.query_first.weight")

    def of_tasks(product: Floats) -> Floats:
        return product.reshape(*shape[:2], *product.shape[1:])

    query_last, keys, values = (of_tasks(nodes @ tensors[name].T) for name in ("query_last", "key", "value"))
    query_first = None if first is None else of_tasks(nodes @ first.T)
    readout = of_tasks(nodes @ tensors["combine"] * scale)
    offset = of_tasks(nodes @ weights.tensors["global_.combine.bias"] * scale)
    firsts = [None] * len(tasks) if query_first is None else list(query_first)
    return [Encoding(*arrays) for arrays in zip(query_last, firsts, keys, values, readout, offset, strict=True)]


def embeddings(weights: Weights, tasks: Sequence[Task], stop: Integers) -> Floats:
    """Return (B, N, D): linear embeddings, the depot's from a layer of its own, then the encoder's layers."""
    config, tensors = weights.config, weights.tensors
    features = np.stack([_features(task) for task in tasks])
    nodes: Floats = features @ tensors["global_.embed.weight"].T + tensors["global_.embed.bias"]
    if config.has_depot:
        depots = features[:, 0, :2]
        nodes[:, 0] = depots @ tensors["global_.embed_depot.weight"].T + tensors["global_.embed_depot.bias"]
    for layer in range(config.layers):
        encode_layer(nodes, layer_weights(weights, layer), config.heads, stop)
    return nodes


def _features(task: Task) -> Floats:
    """Return the coordinates of the nodes (N, 2), in CVRP with the demands as shares of the capacity (N, 3)."""
    features = task.coords.astype(np.float32)
    if task.demand is None or task.capacity is None:
        return features
    share = (task.demand / task.capacity).astype(np.float32)
    return np.concatenate([features, share[:, None]], axis=1)


def layer_weights(weights: Weights, layer: int) -> LayerWeights:
    """Return the parameters of a layer."""
    names = [
        f"{field.removesuffix('_bias')}.{'bias' if '_bias' in field else 'weight'}" for field in LayerWeights._fields
    ]
    return LayerWeights(*(weights.tensors[f"global_.layers.{layer}.{name}"] for name in names))


@cached_njit(nogil=True)
def encode_layer(batch: Floats, weights: LayerWeights, heads: int, stop: Integers) -> None:
    """Replace the embeddings (B, N, D) by what a layer makes of them; abandoned once stop[0] is not 0."""
    nodes = batch.reshape(-1, batch.shape[2])
    qkv, mixed = np.dot(nodes, weights.qkv.T), np.empty(nodes.shape, np.float32)
    for i in range(batch.shape[0]):
        rows = slice(i * batch.shape[1], (i + 1) * batch.shape[1])
        _attend(qkv[rows], mixed[rows], heads, stop)
    _add(nodes, 0, np.dot(mixed, weights.combine.T), weights.combine_bias)
    for i in range(batch.shape[0]):
        _normalise(batch[i], weights.norm1, weights.norm1_bias)
    _add_feed_forward(nodes, weights)
    for i in range(batch.shape[0]):
        _normalise(batch[i], weights.norm2, weights.norm2_bias)


@njit(nogil=True)
def _attend(qkv: Floats, mixed: Floats, heads: int, stop: Integers) -> None:
    """Write the attention of each node to all nodes of its task, the heads side by side (N, D), from (N, 3 D)."""
    n, width = mixed.shape
    d = width // heads
    query, keys, values = _split_heads(qkv, heads)
    padded = keys.shape[2]
    scores, totals = np.empty((PARTS, padded), np.float32), np.empty(PARTS, np.float32)
    pooled = np.empty((PARTS, LANES), np.float32)
    for h in range(heads):
        for begin in range(0, n, PARTS):
            if stop[0] != 0:
                return
            for m in range(0, padded, LANES):
                tile = zero_tile()
                for j in range(d):
                    tile = add_outer(
                        tile, query, (h * query.shape[1] + begin) * d + j, d, keys, (h * d + j) * padded + m
                    )
                store_parts(tile, scores, m, padded)
            _exponentials(scores, n, totals)
            for first in range(0, d, LANES):
                tile = zero_tile()
                for m in range(n):
                    tile = add_outer(tile, scores, m, padded, values, (h * n + m) * values.shape[2] + first)
                store_parts(tile, pooled, 0, LANES)
                for r in range(min(PARTS, n - begin)):
                    for j in range(min(LANES, d - first)):
                        mixed[begin + r, h * d + first + j] = pooled[r, j] / totals[r]


@njit(nogil=True)
def _split_heads(qkv: Floats, heads: int) -> tuple[Floats, Floats, Floats]:
    """Return queries (H, N, d), divided by sqrt(d), keys (H, d, N) and values (H, N, d), from (N, 3 D).

    They are padded to whole tiles: queries to 8 of them, keys to 16, values to a width of 16.
    """
    n, width = qkv.shape[0], qkv.shape[1] // 3
    d = width // heads
    scale = np.float32(1 / math.sqrt(d))
    query = np.zeros((heads, n + -n % PARTS, d), np.float32)
    keys = np.zeros((heads, d, n + -n % LANES), np.float32)
    values = np.zeros((heads, n, d + -d % LANES), np.float32)
    for h in range(heads):
        for i in range(n):
            for j in range(d):
                query[h, i, j] = scale * qkv[i, h * d + j]
                values[h, i, j] = qkv[i, 2 * width + h * d + j]
        for j in range(d):
            for i in range(n):
                keys[h, j, i] = qkv[i, width + h * d + j]
    return query, keys, values


@njit(nogil=True, fastmath=FAST)
def _exponentials(scores: Floats, count: int, totals: Floats) -> None:
    """Replace the first `count` scores of each row by exp(score - their maximum), and write their sum."""
    for r in range(scores.shape[0]):
        top, total = row_maximum(scores, r, 0, count), np.float32(0.0)
        for n in range(count):
            w = exp32(scores[r, n] - top)
            scores[r, n] = w
            total += w
        totals[r] = total


@njit(nogil=True)
def _add_feed_forward(nodes: Floats, weights: LayerWeights) -> None:
    """Add W2 relu(W1 x + b1) + b2 to each node."""
    hidden = np.empty((min(ROWS, nodes.shape[0]), weights.up.shape[0]), np.float32)
    change = np.empty((hidden.shape[0], nodes.shape[1]), np.float32)
    for begin in range(0, nodes.shape[0], ROWS):
        rows = nodes[begin : begin + ROWS]
        up, down = hidden[: rows.shape[0]], change[: rows.shape[0]]
        np.dot(rows, weights.up.T, up)
        for r in range(up.shape[0]):
            for j in range(up.shape[1]):
                up[r, j] = max(up[r, j] + weights.up_bias[j], np.float32(0.0))
        np.dot(up, weights.down.T, down)
        _add(nodes, begin, down, weights.down_bias)


@njit(nogil=True)
def _add(nodes: Floats, begin: int, change: Floats, bias: Floats) -> None:
    """nodes[begin : ...] += change + bias."""
    for r in range(change.shape[0]):
        for j in range(change.shape[1]):
            nodes[begin + r, j] += change[r, j] + bias[j]


@njit(nogil=True, fastmath=FAST)
def _normalise(nodes: Floats, weight: Floats, bias: Floats) -> None:
    """Instance normalisation: give each feature mean 0 and variance 1 over the nodes, then scale and move it."""
    n, width = nodes.shape
    mean, variance = np.zeros(width, np.float32), np.zeros(width, np.float32)
    for r in range(n):
        for j in range(width):
            mean[j] += nodes[r, j]
    for j in range(width):
        mean[j] /= np.float32(n)
    for r in range(n):
        for j in range(width):
            variance[j] += (nodes[r, j] - mean[j]) ** 2
    for j in range(width):
        scale = weight[j] / np.sqrt(variance[j] / np.float32(n) + np.float32(1e-5))
        variance[j] = scale
        mean[j] = bias[j] - mean[j] * scale
    for r in range(n):
        for j in range(width):
            nodes[r, j] = nodes[r, j] * variance[j] + mean[j]
