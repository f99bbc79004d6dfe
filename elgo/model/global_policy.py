"""The global policy (POMO): an encoder over all nodes, and a decoder that sees the context of the partial solution.

Shapes: B instances, M rollouts, N nodes, H heads, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elgo.model.config import PolicyConfig
from elgo.model.env import ENVIRONMENTS, Batch, State
from elgo.model.linear import Linear, linear


class Encoding(NamedTuple):
    """All that the decoder needs of the nodes: computed once per instance instead of once per step."""

    batch: Batch
    query_last: Tensor  # (B, N, D) what a node adds to the query as the current one
    query_first: Tensor | None  # (B, N, D) TSP: what it adds as the first one
    keys: Tensor  # (B, H, N, D/H)
    values: Tensor  # (B, H, N, D/H)
    readout: Tensor  # (B, N, D) and
    offset: Tensor  # (B, N): u_global = heads of the glimpse . readout + offset


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, N, D) -> (B, H, N, D/H)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class InstanceNorm(nn.Module):
    """Normalises each feature over the real nodes of its own instance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """x (B, N, D), real (B, N) or None when nothing is padded."""
        if real is None:
            mean = x.mean(1, keepdim=True)
            variance = (x - mean).square().mean(1, keepdim=True)  # faster than torch.var_mean
        else:
            weight = real[:, :, None] / real.sum(1)[:, None, None]
            mean = (x * weight).sum(1, keepdim=True)
            variance = ((x - mean).square() * weight).sum(1, keepdim=True)
        scale = self.weight * torch.rsqrt(variance + 1e-5)
        return x * scale + (self.bias - mean * scale)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward block, each with a residual and a normalisation."""

    def __init__(self, width: int, heads: int, hidden: int, norm: Callable[[int], nn.Module] = InstanceNorm) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width, bias=False)
        self.combine = Linear(width, width)
        self.norm1 = norm(width)
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width)
        self.norm2 = norm(width)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x (B, N, D), real (B, N) or None when nothing is padded."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        mask = None if real is None else real[:, None, None]  # True where it may attend
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.combine(attended), real)
        return self.norm2(x + self.down(F.relu(self.up(x))), real)


class GlobalPolicy(nn.Module):
    """POMO: an encoder over all nodes, and a decoder whose query is the context of the partial solution."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        width, depot = config.width, config.has_depot
        self.env, self.heads = ENVIRONMENTS[config.problem], config.heads
        self.embed = nn.Linear(3 if depot else 2, width)
        self.embed_depot = nn.Linear(2, width) if depot else None
        self.layers = nn.ModuleList(EncoderLayer(width, config.heads, config.hidden) for _ in range(config.layers))
        self.query_last = Linear(width, width, bias=False)
        self.query_first = None if depot else Linear(width, width, bias=False)
        self.query_load = nn.Linear(1, width, bias=False) if depot else None
        self.key = Linear(width, width, bias=False)
        self.value = Linear(width, width, bias=False)
        self.combine = Linear(width, width)
        if self.query_load is not None:  # in the published code one layer with width + 1 inputs: all start alike
            bound = 1 / math.sqrt(width + 1)
            for query in (self.query_last, self.query_load):
                nn.init.uniform_(query.weight, -bound, bound)

    def encode(self, batch: Batch) -> Encoding:
        """Return what the decoder needs of every node. Gradients flow through it."""
        nodes = self.embeddings(batch)
        scale = 1 / math.sqrt(nodes.shape[2])
        return Encoding(
            batch,
            keys=split_heads(self.key(nodes), self.heads),
            # (W g + b).h_n = g.(W^T h_n) + b.h_n: folding W into the N nodes saves a product for every state.
            readout=linear(nodes, self.combine.weight.T) * scale,
            offset=nodes @ self.combine.bias * scale,
            query_last=self.query_last(nodes),
            query_first=None if self.query_first is None else self.query_first(nodes),
            values=split_heads(self.value(nodes), self.heads),
        )

    def embeddings(self, batch: Batch) -> Tensor:
        """(B, N, D): linear embeddings, the depot's from a layer of its own, then the encoder's layers."""
        features = self.env.node_features(batch)
        nodes = self.embed(features)
        if self.embed_depot is not None:
            nodes = torch.cat([self.embed_depot(features[:, :1, :2]), nodes[:, 1:]], dim=1)
        for layer in self.layers:
            nodes = layer(nodes, batch.real)
        return nodes

    def scores(self, encoding: Encoding, state: State, mask: Tensor) -> Tensor:
        """u_global = q.k / sqrt(d) as (B, M, N), after one attention (the glimpse) over the nodes.

        mask (B, M, N) is 0 for nodes that may come next and -inf for others: adding it is twice as fast as a boolean.
        """
        batch = encoding.batch
        query = F.embedding(state.current + batch.first_row, encoding.query_last.flatten(0, 1))
        if encoding.query_first is not None:
            query = query + F.embedding(state.first + batch.first_row, encoding.query_first.flatten(0, 1))
        if self.query_load is not None:
            query = query + self.query_load(self.env.load_share(batch, state)[..., None])
        query = split_heads(query, self.heads)
        glimpse = F.scaled_dot_product_attention(query, encoding.keys, encoding.values, attn_mask=mask[:, None])
        glimpse = glimpse.transpose(1, 2).flatten(2)  # (B, M, D)
        return torch.baddbmm(encoding.offset[:, None], glimpse, encoding.readout.transpose(1, 2))
