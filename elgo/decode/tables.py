"""The tables of the compiled kernels, made from a model's weights and the encoding of a task."""

import math

import numpy as np
from numpy.typing import NDArray

from elgo.decode.arithmetic import LANES, Floats, Integers
from elgo.decode.encoder import Encoding
from elgo.decode.global_kernels import GlobalTables, part_heads
from elgo.decode.local_kernels import KernelConfig, LocalTables
from elgo.decode.tiles import LANES as TILE_LANES
from elgo.decode.tiles import PARTS
from elgo.model.checkpoint import Weights
from elgo.model.config import PolicyConfig

ROWS = 2**17  # scores that are computed at once: they stay in the second-level cache


def kernel_config(config: PolicyConfig) -> KernelConfig:
    """Return the scalars of the config that the kernels need."""
    return KernelConfig(
        neighbours=config.neighbours,
        clip=config.clip,
        xi=config.xi,
        penalty=config.penalty,
        use_global=config.global_policy,
        use_local=config.local_policy,
        euclidean=config.coordinates == "euclidean",
        has_depot=config.has_depot,
        radius_slack=config.radius_slack,
        penalty_slack=config.penalty_slack,
    )


# --- global policy ---------------------------------------------------------------------------------------------------


def no_global_tables(nodes: int) -> GlobalTables:
    """Return the tables of a task of so many nodes for a model without a global policy."""
    none, empty = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0, 0, 0), np.float32)
    zero, flat = np.zeros(nodes + -nodes % LANES, np.float32), np.zeros((0, 0), np.float32)
    return GlobalTables(empty, none, none, flat, none, none, none, none, zero, np.zeros(0, np.int64))


def global_tables(weights: Weights, encoding: Encoding, with_table: bool) -> GlobalTables:
    """Return the tables of an encoded task; with_table says whether N x N factors of the glimpse are made."""
    heads, n = weights.config.heads, len(encoding.keys)
    d = weights.config.width // heads
    scale = np.float32(1 / math.sqrt(d))
    head = part_heads(heads, d)
    first = np.zeros((0, heads * d), np.float32) if encoding.query_first is None else encoding.query_first * scale
    last = (encoding.query_last * scale).reshape(n, heads, d)
    keys = np.ascontiguousarray(_split_heads(encoding.keys, heads).swapaxes(1, 2))  # (H, d, N)
    load = np.zeros((heads, d), np.float32)
    if weights.config.has_depot:
        load = (weights.tensors["global_.query_load.weight"][:, 0] * scale).reshape(heads, d)
    slope = (load[:, None] @ keys)[:, 0]
    slope -= slope.max(1, keepdims=True)  # a factor common to all nodes, which keeps exp() in range
    of_parts = _pad_nodes(slope[head]).reshape(-1, PARTS, n + -n % LANES)
    return GlobalTables(
        last=_last_table(last, keys, head) if with_table else np.zeros((0, 0, 0, 0), np.float32),
        query_first=first.reshape(-1, heads, d),
        query_last=last,
        query_load=load,
        keys=_pad_nodes(keys),
        values=_in_parts(_split_heads(encoding.values, heads)),
        slope=np.ascontiguousarray(of_parts.swapaxes(1, 2)),
        readout=_in_parts(_split_heads(encoding.readout, heads)),
        offset=_pad_nodes(encoding.offset),
        head=head,
    )


def _pad_nodes(x: Floats) -> Floats:
    """Return x with the last axis padded with zeros to a multiple of LANES; np.pad is slow on small arrays."""
    out = np.zeros((*x.shape[:-1], x.shape[-1] + -x.shape[-1] % LANES), np.float32)
    out[..., : x.shape[-1]] = x
    return out


def _split_heads(x: Floats, heads: int) -> Floats:
    """(N, D) -> (H, N, d)."""
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def _in_parts(x: Floats) -> Floats:
    """Return (H, N, d) as tiles (G, padded N, 128), filled with zeros."""
    heads, n, d = x.shape
    per_head = -(-d // TILE_LANES)
    parts = heads * per_head
    out = np.zeros((n + -n % LANES, parts + -parts % PARTS, TILE_LANES), np.float32)
    wide = np.zeros((n, heads, per_head * TILE_LANES), np.float32)
    wide[:, :, :d] = x.swapaxes(0, 1)
    out[:n, :parts] = wide.reshape(n, parts, TILE_LANES)
    return np.ascontiguousarray(out.reshape(len(out), -1, PARTS * TILE_LANES).swapaxes(0, 1))


def _last_table(query: Floats, keys: Floats, head: Integers) -> Floats:
    """Return exp(q_last.k - row maximum) as (N, G, padded N, 8), from (N, H, d) and (H, d, N)."""
    n, heads = query.shape[:2]
    out = _aligned_zeros((n, len(head) // PARTS, n + -n % LANES, PARTS))
    step = max(1, ROWS // (heads * n))
    for begin in range(0, n, step):
        score = query[begin : begin + step].swapaxes(0, 1) @ keys  # (H, rows, N)
        score -= score.max(2, keepdims=True)
        np.exp(score, out=score)
        of_parts = score[head].reshape(-1, PARTS, *score.shape[1:])
        out[begin : begin + step, :, :n] = of_parts.transpose(2, 0, 3, 1)
    return out


def _aligned_zeros(shape: tuple[int, ...]) -> Floats:
    """Return zeros at an address from which vectors do not straddle cache lines."""
    size, line = math.prod(shape), 64
    raw = np.zeros(size + line // 4, np.float32)
    begin = -raw.ctypes.data % line // 4
    return raw[begin : begin + size].reshape(shape)


# --- local policy ----------------------------------------------------------------------------------------------------


def local_tables(weights: Weights) -> LocalTables:
    """Return the local policy folded into tables: the products of `LocalPolicy.fold`, for all tokens."""
    config, tensors = weights.config, weights.tensors
    heads, width = config.local_heads, config.local_width
    embed = tensors["local.embed.weight"]  # (E, F)
    feature = np.zeros((3, width), np.float32)
    feature[: embed.shape[1]] = embed.T
    rank = rank_vectors(weights)
    rank = np.pad(rank, ((0, -len(rank) % LANES), (0, 0)))
    query = (tensors["local.query.weight"] @ tensors["local.context"]).reshape(heads, 1, -1)
    key = tensors["local.key.weight"].reshape(heads, -1, width)
    attend = (query @ key)[:, 0] / np.float32(math.sqrt(width // heads))
    value = tensors["local.value.weight"].reshape(heads, -1, width).swapaxes(1, 2)
    combine = tensors["local.combine.weight"].reshape(width, heads, -1).transpose(1, 2, 0)
    mix = value @ combine / np.float32(math.sqrt(width))  # (H, E, E)
    # h~_c is linear in the pooled tokens of each head, and these in the weights.
    basis = np.concatenate([rank, feature, np.zeros((1, width), np.float32)])  # (T + 4, E)
    summary = basis @ mix  # (H, T + 4, E)
    summary[0, -1] = tensors["local.combine.bias"] / np.float32(math.sqrt(width))
    readout = summary.reshape(-1, width) @ basis.T
    of_feature, of_rank = attend @ feature.T, attend @ rank.T
    # Softmax does not see a shift of all scores: this one, the most that features can add, keeps exp() in range.
    most = of_rank.max(1) + np.abs(of_feature) @ np.array([1.0, math.pi, 1.0], np.float32)
    return LocalTables(
        np.ascontiguousarray(of_feature),
        of_rank - most[:, None],
        np.pad(readout, ((0, 0), (0, -len(basis) % TILE_LANES))),
    )


def rank_vectors(weights: Weights) -> Floats:
    """Return what is added to W x_i of each token (T, E): b + PE(rank i); for the depot its own vector instead of b."""
    config, bias = weights.config, weights.tensors["local.embed.bias"]
    tokens = config.neighbours + config.has_depot
    encoding = positional_encoding(tokens, config.local_width) if config.positional else np.zeros((tokens, len(bias)))
    rank = (encoding + bias).astype(np.float32)
    if config.has_depot:
        rank[0] = encoding[0] + weights.tensors["local.depot"]
    return rank


def positional_encoding(length: int, width: int) -> NDArray[np.float64]:
    """Return sinusoids (length, width) as `elgo.model.neighbours.positional_encoding` does."""
    scales = np.exp(np.arange(width // 2) * (-math.log(10_000.0) / max(width // 2 - 1, 1)))
    angle = np.arange(length)[:, None] * scales
    return np.pad(np.concatenate([np.sin(angle), np.cos(angle)], axis=1), ((0, 0), (0, width % 2)))
