"""The local policy: a light network that sees the K nearest valid nodes in polar coordinates around the current node.

Shapes: B instances, M rollouts, K neighbours, T tokens, H heads, E local width.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elgo.model.config import PolicyConfig
from elgo.model.env import Batch, State, gather_nodes
from elgo.model.global_policy import EncoderLayer
from elgo.model.neighbours import Neighbourhood, positional_encoding


class TokenNorm(nn.LayerNorm):
    """Layer normalisation: each token by itself, whether present or not."""

    def forward(self, input: Tensor, present: Tensor | None = None) -> Tensor:
        return super().forward(input)


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
        if self.has_depot:  # a token without distance or angle: those of a far depot would grow with N
            self.depot = nn.Parameter(torch.empty(width).uniform_(-1, 1))
        self.context = nn.Parameter(torch.empty(width).uniform_(-1, 1))  # h_c
        self.layers = nn.ModuleList(
            EncoderLayer(width, config.local_heads, 4 * width, TokenNorm) for _ in range(config.local_layers)
        )
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)
        encoding = positional_encoding(config.neighbours + self.has_depot, width)
        self.register_buffer("pe", encoding if config.positional else torch.zeros_like(encoding), persistent=False)

    def tokens(self, batch: Batch, state: State, near: Neighbourhood, present: Tensor) -> Tokens:
        """h_i = W x_i + b + PE(rank i), K or 1 + K per state; absent neighbours have x_i = 0."""
        x = self.features(batch, state, near)
        rank = self.pe[: x.shape[3]] + self.embed.bias
        if self.has_depot:
            rank = torch.cat([self.pe[:1] + self.depot, rank[1:]])
        if not self.layers:
            return LinearTokens(x, self.embed.weight, rank)
        h = (torch.einsum("fbmt,ef->bmte", x, self.embed.weight) + rank).flatten(0, 1)
        for layer in self.layers:
            h = layer(h, present.flatten(0, 1))
        return DenseTokens(h.unflatten(0, x.shape[1:3]))

    def features(self, batch: Batch, state: State, near: Neighbourhood) -> Tensor:
        """x_i = (rho_i / max rho, theta_i[, d_i / Q_remaining]) as (2 or 3, B, M, K or 1 + K); 0 for the depot."""
        slack = self.config.radius_slack
        radius = near.radius + slack if slack else near.radius
        if self.config.coordinates == "polar":
            planes = [near.rho / radius, near.theta * near.present]
        else:
            planes = [x / radius * near.present for x in offsets(batch, state.current, near.node)]
        if self.has_depot:
            demand = batch.demand.float().gather(1, near.node.flatten(1)).view_as(near.rho)
            planes.append(demand * near.present / state.load.clamp(min=1).float()[:, :, None])
        return torch.stack([F.pad(plane, (1, 0)) if self.has_depot else plane for plane in planes])

    def scores(self, batch: Batch, state: State, near: Neighbourhood, valid: Tensor) -> Tensor:
        """u_local = h~_c . h_i / sqrt(d_e) of each token, (B, M, K or 1 + K); finite also where absent."""
        present = torch.cat([valid[:, :, :1], near.present], dim=2) if self.has_depot else near.present
        tokens = self.tokens(batch, state, near, present)
        heads, width = self.config.local_heads, self.config.local_width
        # The query is the same for every state, so q.k_i = (Wk^T q).h_i, and sum_i w_i v_i = Wv (sum_i w_i h_i).
        query = self.query(self.context).view(heads, 1, -1)
        folded = (query @ self.key.weight.view(heads, -1, width)).squeeze(1) / math.sqrt(width // heads)  # (H, E)
        weight = tokens.project(folded).masked_fill(~present[:, :, None], -torch.inf).softmax(dim=-1)  # (B, M, H, K)
        value = self.combine.weight.view(width, heads, -1).transpose(0, 1) @ self.value.weight.view(heads, -1, width)
        summary = tokens.mix(weight, value.transpose(1, 2)) + self.combine.bias  # (B, M, E)
        return tokens.dot(summary) / math.sqrt(width)


class LinearTokens(NamedTuple):
    """Tokens h_i = W x_i + r_i that are never built: few features x and shared rank vectors r give all their sums.

    The features are planes, since products over so short an axis would take longer than all the rest.
    """

    x: Tensor  # (F, B, M, T)
    weight: Tensor  # (E, F)
    rank: Tensor  # (T, E)

    def project(self, vectors: Tensor) -> Tensor:
        """h_i . v for shared vectors (H, E), as (B, M, H, T)."""
        out = vectors @ self.rank.T  # (H, T)
        for x, slope in zip(self.x, (vectors @ self.weight).T, strict=True):
            out = torch.addcmul(out, x[:, :, None], slope[:, None])
        return out

    def mix(self, weight: Tensor, maps: Tensor) -> Tensor:
        """sum_h (sum_i w_hi h_i) A_h for weights (B, M, H, T) and maps A (H, E, O), as (B, M, O)."""
        out = weight.flatten(2) @ (self.rank @ maps).flatten(0, 1)
        for x, row in zip(self.x, (self.weight.T @ maps).unbind(1), strict=True):
            out = out + (weight * x[:, :, None]).sum(-1) @ row
        return out

    def dot(self, vector: Tensor) -> Tensor:
        """h_i . v for one vector per state (B, M, E), as (B, M, T)."""
        out = vector @ self.rank.T
        for x, slope in zip(self.x, (vector @ self.weight).unbind(-1), strict=True):
            out = torch.addcmul(out, x, slope[..., None])
        return out


class DenseTokens(NamedTuple):
    """Tokens as they come out of self-attention, with the same sums."""

    h: Tensor  # (B, M, T, E)

    def project(self, vectors: Tensor) -> Tensor:
        return (self.h @ vectors.T).transpose(2, 3)

    def mix(self, weight: Tensor, maps: Tensor) -> Tensor:
        return (weight @ self.h).flatten(2) @ maps.flatten(0, 1)

    def dot(self, vector: Tensor) -> Tensor:
        return (self.h @ vector[..., None]).squeeze(-1)


Tokens = LinearTokens | DenseTokens


def offsets(batch: Batch, current: Tensor, node: Tensor) -> list[Tensor]:
    """(B, M, K) float32 in x and in y from the current nodes (B, M) to others (B, M, K)."""
    there = gather_nodes(batch.coords, node.flatten(1)).view(*node.shape, 2)
    return list((there - gather_nodes(batch.coords, current)[:, :, None]).float().unbind(-1))
