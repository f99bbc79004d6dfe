"""The tables of the compiled kernels, made from a Policy. The only module of decode/ that imports torch."""

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elgo.decode.arithmetic import LANES, Floats, Integers
from elgo.decode.global_kernels import GlobalTables, part_heads
from elgo.decode.local_kernels import KernelConfig, LocalTables
from elgo.decode.tiles import LANES as TILE_LANES
from elgo.decode.tiles import PARTS
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.global_policy import Encoding, GlobalPolicy, split_heads
from elgo.model.rollout import inference
from elgo.problem.task import Task


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


def make_tables(
    policy: Policy, tasks: Sequence[Task] | Encoding, with_table: bool, threads: int, pool: Executor
) -> tuple[list[GlobalTables], LocalTables]:
    """Return the tables of tasks of one size, which may have been encoded before.

    with_table says whether N x N factors of the glimpse are made. Each thread of the pool takes a share of the tasks:
    that takes less time than sharing each operation.
    """
    if isinstance(tasks, Encoding):
        with inference(threads):
            return global_tables(policy, tasks, with_table), local_tables(policy)

    def of_share(share: Sequence[Task]) -> list[GlobalTables]:
        with torch.inference_mode(), _OneDnnProducts():
            return global_tables(policy, policy.encode(make_batch(share)), with_table)

    count = min(threads, len(tasks))
    shares = [tasks[len(tasks) * i // count : len(tasks) * (i + 1) // count] for i in range(count)]
    with inference(threads // count):
        made = pool.map(of_share, shares) if count > 1 else map(of_share, shares)
        return list(chain.from_iterable(made)), local_tables(policy)


class _OneDnnProducts(TorchFunctionMode):
    """A context in which linear layers are computed by oneDNN: twice as fast as MKL where this has no AVX-512."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and _HAS_ONEDNN and args[0].dtype == torch.float32:
            x, weight, bias = args
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return func(*args, **(kwargs or {}))


_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def global_tables(policy: Policy, encoding: Encoding, with_table: bool) -> list[GlobalTables]:
    """Return the tables of each task of an encoded, unpadded batch."""
    net, batch = policy.global_, encoding.batch.coords.shape[0]
    heads, d = policy.config.heads, policy.config.width // policy.config.heads
    nodes = encoding.batch.coords.shape[1] + -encoding.batch.coords.shape[1] % LANES
    if net is None:
        none, empty = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0, 0, 0), np.float32)
        zero, flat = np.zeros(nodes, np.float32), np.zeros((0, 0), np.float32)
        no_part = np.zeros(0, np.int64)
        return [GlobalTables(empty, none, none, flat, none, none, none, none, zero, no_part)] * batch
    assert isinstance(net, GlobalPolicy)
    scale = 1 / math.sqrt(d)
    first = encoding.query_last[:, :0] if encoding.query_first is None else encoding.query_first * scale
    last = encoding.query_last * scale
    load = (last.new_zeros(heads * d) if net.query_load is None else net.query_load.weight[:, 0] * scale).view(heads, d)
    keys = encoding.keys.transpose(2, 3)  # (B, H, d, N)
    slope = (load[:, None] @ keys).squeeze(2)
    slope = slope - slope.amax(-1, keepdim=True)  # a factor common to all nodes, which keeps exp() in range
    head = part_heads(heads, d)
    first_, last_ = (numpy32(x.unflatten(2, (heads, d))) for x in (first, last))
    table = (
        _last_table(split_heads(last, heads), keys, head) if with_table else np.zeros((batch, 0, 0, 0, 0), np.float32)
    )
    readout = encoding.readout.unflatten(2, (heads, d)).transpose(1, 2)
    values_, readout_ = (numpy32(in_parts(x, nodes)) for x in (encoding.values, readout))
    keys_, offset, slope_ = (numpy32(pad_nodes(x)) for x in (keys, encoding.offset, slope[:, head]))
    slope_ = np.ascontiguousarray(slope_.reshape(batch, -1, PARTS, nodes).swapaxes(2, 3))
    load_ = numpy32(load)
    return [
        GlobalTables(
            table[i], first_[i], last_[i], load_, keys_[i], values_[i], slope_[i], readout_[i], offset[i], head
        )
        for i in range(batch)
    ]


def in_parts(x: Tensor, nodes: int) -> Tensor:
    """Return (B, H, N, d) as tiles (B, G, nodes, 128), filled with zeros."""
    n, d = x.shape[2:]
    x = F.pad(x, (0, -d % TILE_LANES, 0, nodes - n)).unflatten(3, (-1, TILE_LANES)).transpose(2, 3).flatten(1, 2)
    x = F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % PARTS))  # (B, 8 G, nodes, 16)
    return x.unflatten(1, (-1, PARTS)).transpose(2, 3).flatten(3).contiguous()


def _last_table(query: Tensor, keys: Tensor, head: Integers) -> Floats:
    """exp(q_last.k - row maximum) as (B, N, G, padded N, 8)."""
    b, _, n, _ = query.shape
    out = aligned_zeros((b, n, len(head) // PARTS, n + -n % LANES, PARTS))
    for i in range(b):
        score = query[i] @ keys[i]
        score -= score.amax(-1, keepdim=True)
        of_parts = score.exp_()[head].unflatten(0, (-1, PARTS))  # (G, 8, N, N)
        torch.from_numpy(out[i])[:, :, :n] = of_parts.permute(2, 0, 3, 1)
    return out


def aligned_zeros(shape: tuple[int, ...]) -> Floats:
    """Return zeros at an address that vectors do not straddle cache lines from.

    numpy asks for huge pages, which random rows need, but torch aligns its memory.
    """
    size, line = math.prod(shape), 64
    raw = np.zeros(size + line // 4, np.float32)
    begin = -raw.ctypes.data % line // 4
    return raw[begin : begin + size].reshape(shape)


def local_tables(policy: Policy) -> LocalTables:
    """Return the local policy folded into tables."""
    return LocalTables(*(numpy32(x) for x in local_tensors(policy)))


def local_tensors(policy: Policy) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same as tensors, through which gradients flow."""
    net, folded = policy.local, policy.local.fold(len(policy.local.pe))
    feature = torch.zeros(3, policy.config.local_width, device=folded.rank.device)
    feature[: net.embed.in_features] = net.embed.weight.T
    rank = F.pad(folded.rank, (0, 0, 0, -len(folded.rank) % LANES))
    # h~_c is linear in the pooled tokens of each head, and these in the weights.
    basis = torch.cat([rank, feature, torch.zeros_like(feature[:1])])  # (T + 4, E)
    summary = basis @ folded.mix  # (H, T + 4, E)
    summary[0, -1] = folded.bias
    readout = F.pad(summary.flatten(0, 1) @ basis.T, (0, -len(basis) % TILE_LANES))
    attend, by_rank = folded.attend @ feature.T, folded.attend @ rank.T
    # Softmax does not see a shift of all scores: this one, the most that features can add, keeps exp() in range.
    most = by_rank.amax(1) + attend.abs() @ attend.new_tensor([1.0, math.pi, 1.0])
    return attend, by_rank - most.detach()[:, None], readout


def numpy32(x: Tensor) -> Floats:
    """Return a contiguous float32 copy."""
    return np.ascontiguousarray(x.detach().cpu().float().numpy())


def pad_nodes(x: Tensor) -> Tensor:
    """Return x with the last axis padded with zeros to a multiple of LANES."""
    return F.pad(x, (0, -x.shape[-1] % LANES))
