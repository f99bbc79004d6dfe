"""The local policy: a light network that sees the K nearest valid nodes in polar coordinates around the current node.

Shapes: B instances, M rollouts, T tokens, H heads, E local width, F features of a token.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elgo.model.config import PolicyConfig
from elgo.model.env import State
from elgo.model.global_policy import EncoderLayer
from elgo.model.neighbours import Neighbourhood, positional_encoding


class TokenNorm(nn.LayerNorm):
    """Layer normalisation: each token by itself, whether present or not."""

    def forward(self, input: Tensor, present: Tensor | None = None) -> Tensor:
        return super().forward(input)


class FoldedWeights(NamedTuple):
    """Products of the local policy's parameters, the same in every state.

    The query is that of the learned context h_c alone, so q.k_i = (Wk^T q).h_i, and sum_i w_i v_i = Wv (sum_i w_i h_i).
    """

    rank: Tensor  # (T, E) what is added to W x_i: b + PE(rank i); for the depot its own vector instead of b
    attend: Tensor  # (H, E) the attention's score of a token is attend . h_i
    mix: Tensor  # (H, E, E) and
    bias: Tensor  # (E,): h~_c / sqrt(d_e) = sum_h (sum_i w_hi h_i) mix_h + bias
    # Products of these with W and rank, by which tokens h_i = W x_i + rank_i need not be built:
    attend_x: tuple[Tensor, ...]  # F times (H, 1)
    attend_rank: Tensor  # (H, T)
    readout: Tensor  # (T + F, H * (F + T)) from the weighted sums of all x_i and ranks to h~_c . rank_i and h~_c . W
    offset: Tensor  # (T + F,) the bias's part of these


class LocalPolicy(nn.Module):
    """A learned context vector attends to the neighbours in polar coordinates and scores them."""

    pe: Tensor

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        self.has_depot = config.has_depot
        width = config.local_width
        self.embed = nn.Linear(3 if self.has_depot else 2, width)
        if self.has_depot:  # its token
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

    def fold(self, tokens: int) -> FoldedWeights:
        """Return the products of the parameters for so many tokens. Gradients flow through it."""
        heads, width = self.config.local_heads, self.config.local_width
        rank = self.pe[:tokens] + self.embed.bias
        if self.has_depot:
            rank = torch.cat([self.pe[:1] + self.depot, rank[1:]])
        query = self.query(self.context).view(heads, 1, -1)
        attend = (query @ self.key.weight.view(heads, -1, width)).squeeze(1) / math.sqrt(width // heads)
        value = self.value.weight.view(heads, -1, width).transpose(1, 2)
        mix = value @ self.combine.weight.view(width, heads, -1).permute(1, 2, 0) / math.sqrt(width)
        embed, bias = self.embed.weight, self.combine.bias / math.sqrt(width)
        readout = torch.cat([rank, embed.T])  # (T + F, E)
        return FoldedWeights(
            rank,
            attend,
            mix,
            bias,
            attend_x=(embed.T @ attend.T)[:, :, None].unbind(),
            attend_rank=attend @ rank.T,
            readout=readout @ (torch.cat([embed.T, rank]) @ mix).flatten(0, 1).T,
            offset=readout @ bias,
        )

    def features(self, state: State, near: Neighbourhood) -> list[Tensor]:
        """x_i = (rho_i / max rho, theta_i[, d_i / Q_remaining]), (B, M, T) each; 0 for the depot."""
        share = near.share(self.config.radius_slack)
        x = [share, near.theta]
        if self.config.coordinates == "euclidean":
            x = [share * near.theta.cos(), share * near.theta.sin()]
        if near.demand is not None:
            x.append(near.demand / state.load.clamp(min=1)[:, :, None])
        return x

    def scores(self, state: State, near: Neighbourhood, folded: FoldedWeights | None = None) -> Tensor:
        """u_local = h~_c . h_i / sqrt(d_e) of each token, (B, M, T); finite also where absent."""
        x = self.features(state, near)
        folded = folded or self.fold(near.node.shape[2])
        return self._layered(x, near.present, folded) if self.layers else self._light(x, near.present, folded)

    def _light(self, planes: list[Tensor], present: Tensor, folded: FoldedWeights) -> Tensor:
        """The scores of tokens h_i = W x_i + rank_i: sums over few features and over ranks that all states share."""
        x, score = torch.stack(planes, dim=2), folded.attend_rank
        for plane, slope in zip(x.split(1, dim=2), folded.attend_x, strict=True):  # faster than a product over F
            score = torch.addcmul(score, plane, slope)
        weight = attention_weights(score, present)  # (B, M, H, T)
        sums = torch.cat([weight @ x.transpose(2, 3), weight], dim=3)  # sum_i w_hi x_i, and w_hi for rank i
        u, *slopes = F.linear(sums.flatten(2), folded.readout, folded.offset).split([x.shape[3], *[1] * len(planes)], 2)
        for plane, slope in zip(planes, slopes, strict=True):
            u = torch.addcmul(u, plane, slope)
        return u

    def _layered(self, planes: list[Tensor], present: Tensor, folded: FoldedWeights) -> Tensor:
        """The scores of tokens that first pass through layers of self-attention."""
        h = (torch.stack(planes, dim=3) @ self.embed.weight.T + folded.rank).flatten(0, 1)
        for layer in self.layers:
            h = layer(h, present.flatten(0, 1))
        h = h.unflatten(0, present.shape[:2])
        weight = attention_weights((h @ folded.attend.T).transpose(2, 3), present)
        summary = (weight @ h).flatten(2) @ folded.mix.flatten(0, 1) + folded.bias
        return (h @ summary[..., None]).squeeze(-1)


def attention_weights(score: Tensor, present: Tensor) -> Tensor:
    """softmax of scores (B, M, H, T) over the tokens that are present (B, M, T)."""
    return torch.where(present[:, :, None], score, -torch.inf).softmax(dim=-1)
