"""The local policy: a light network that sees the K nearest valid nodes in polar coordinates around the current node.

Shapes: B instances, M rollouts, K neighbours, T = K or 1 + K tokens, H heads, E local width.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elgo.model.config import PolicyConfig
from elgo.model.env import Batch, State, gather_nodes
from elgo.model.global_policy import self_attention
from elgo.model.neighbours import Neighbourhood, positional_encoding


class LocalLayer(nn.Module):
    """Self-attention over the neighbours of one state and a feed-forward block, with residuals and layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.combine = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        """x (S, T, E), present (S, T)."""
        x = self.norm1(x + self_attention(x, self.qkv, self.combine, self.heads, present[:, None, None]))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class LocalPolicy(nn.Module):
    """A learned context vector attends to the neighbours in polar coordinates and scores them.

    With a depot, token 0 stands for the depot and the neighbours are tokens 1..K; without, they are tokens 0..K-1.
    """

    pe: Tensor

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        self.has_depot = config.has_depot
        width = config.local_width
        self.embed = nn.Linear(3 if self.has_depot else 2, width)
        if self.has_depot:  # a token without distance and angle: those of a far depot would grow with N
            self.depot = nn.Parameter(torch.empty(width).uniform_(-1, 1))
        self.context = nn.Parameter(torch.empty(width).uniform_(-1, 1))  # h_c
        self.layers = nn.ModuleList(LocalLayer(width, config.local_heads) for _ in range(config.local_layers))
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)
        encoding = positional_encoding(config.neighbours + self.has_depot, width)
        self.register_buffer("pe", encoding if config.positional else torch.zeros_like(encoding), persistent=False)

    def scores(self, batch: Batch, state: State, near: Neighbourhood, valid: Tensor) -> Tensor:
        """u_local = h~_c . h_i / sqrt(d_e) of each token, (B, M, T); finite also where a neighbour is absent."""
        present = torch.cat([valid[:, :, :1], near.present], dim=2) if self.has_depot else near.present
        h = self.tokens(batch, state, near)
        for layer in self.layers:
            h = layer(h.flatten(0, 1), present.flatten(0, 1)).unflatten(0, h.shape[:2])
        heads = self.config.local_heads
        query = self.query(self.context).view(heads, -1)  # (H, E/H), the same for every state
        keys, values = (part(h).unflatten(-1, (heads, -1)) for part in (self.key, self.value))  # (B, M, T, H, E/H)
        weight = (keys * query).sum(-1) / math.sqrt(query.shape[1])  # (B, M, T, H)
        weight = weight.masked_fill(~present[..., None], -torch.inf).softmax(dim=2)
        attended = self.combine((weight[..., None] * values).sum(2).flatten(-2))  # h~_c (B, M, E)
        return (h @ attended[..., None]).squeeze(-1) / math.sqrt(h.shape[-1])

    def tokens(self, batch: Batch, state: State, near: Neighbourhood) -> Tensor:
        """h_i = W x_i + b + PE(rank i) as (B, M, T, E); an absent neighbour has x_i = 0, the depot a learned vector."""
        h = self.embed(self.features(batch, state, near))
        if self.has_depot:
            h = torch.cat([self.depot.expand_as(h[:, :, :1]), h], dim=2)
        return h + self.pe[: h.shape[2]]

    def features(self, batch: Batch, state: State, near: Neighbourhood) -> Tensor:
        """x_i = (rho_i / max rho, theta_i[, d_i / Q_remaining]) of each neighbour, as (B, M, K, 2 or 3)."""
        if self.config.coordinates == "polar":
            features = [near.rho / near.radius, near.theta * near.present]
        else:
            features = [x / near.radius * near.present for x in offsets(batch, state.current, near.node)]
        if batch.demand is not None:
            demand = batch.demand.float().gather(1, near.node.flatten(1)).view_as(near.rho)
            features.append(demand * near.present / state.load.clamp(min=1).float()[:, :, None])
        return torch.stack(features, dim=-1)


def offsets(batch: Batch, current: Tensor, node: Tensor) -> list[Tensor]:
    """(B, M, K) float32 in x and in y from the current nodes (B, M) to others (B, M, K)."""
    there = gather_nodes(batch.coords, node.flatten(1)).view(*node.shape, 2)
    return list((there - gather_nodes(batch.coords, current)[:, :, None]).float().unbind(-1))
