"""The yardstick of benchmarks/decode.py: a straightforward step-by-step decoder in torch, on our own weights.

At each step, and for every rollout, it does the work that the official ELG code does:

1. gather the distances and compute the relative coordinates and angles of ALL N nodes seen from the current node;
2. masked multi-head attention over all nodes with materialised weights, then the scores of all nodes;
3. top-k over all nodes for the distance penalty;
4. top-k over all nodes once more for the local policy, whose network projects queries, keys and values explicitly;
5. tanh clipping, mask, softmax, arg-max;
6. masks of -inf (B, M, N), changed in place, and a list of chosen nodes that grows by concatenation.

What need not be repeated is done once, as there: the encoder, the decoder's keys and values, the first node's part of
the query, the N x N distances. B counts the symmetries, M the starts ("multi").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, gather_nodes, make_batch
from elgo.model.global_policy import GlobalPolicy, split_heads
from elgo.model.local_policy import LocalPolicy
from elgo.problem.task import Task

INF = math.inf


class Encoded(NamedTuple):
    """What the encoder leaves for the steps."""

    nodes: Tensor  # (B, N, D)
    keys: Tensor  # (B, H, N, d)
    values: Tensor  # (B, H, N, d)
    query_first: Tensor | None  # (B, M, D) TSP: what the first node adds to the query


@dataclass
class Walk:
    """B x M partial solutions, changed in place by each step."""

    coords: Tensor  # (B, N, 2)
    distance: Tensor  # (B, N, N)
    chosen: Tensor  # (B, M, t) nodes so far
    visited: Tensor  # (B, M, N) -inf at nodes that are served
    mask: Tensor  # (B, M, N) -inf at nodes that may not come next
    demand: Tensor | None = None  # (B, N) in units, exact in float32
    load: Tensor | None = None  # (B, M) units left
    capacity: Tensor | None = None  # (B, 1)

    @property
    def current(self) -> Tensor:
        return self.chosen[:, :, -1]


def check(config: PolicyConfig) -> None:
    """ValueError unless the yardstick knows this network: the paper's, with the depot as a token."""
    plain = PolicyConfig(config.problem)
    for field in ("global_policy", "local_policy", "penalty", "local_layers", "coordinates"):
        is_, known = getattr(config, field), getattr(plain, field)
        if is_ != known:
            raise ValueError(f"{field} is {is_!r}, the baseline knows {known!r} only")


@torch.inference_mode()
def decode(
    policy: Policy,
    tasks: Sequence[Task],
    starts: NDArray[np.int64],
    steps: int | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> NDArray[np.int64]:
    """Greedy rollouts (B, M, T) of B tasks of one size from the same starts (M,), the start first.

    Ends after `steps` steps if given. `on_step` is called after the encoder and after each step.
    """
    check(policy.config)
    batch = make_batch(tasks)
    first = torch.from_numpy(starts).expand(len(tasks), -1)
    assert policy.global_ is not None
    encoded = encode(policy.global_, batch, first)
    walk = begin(batch, first)
    on_step()
    while not finished(walk) and (steps is None or walk.chosen.shape[2] <= steps):
        move(walk, choose(policy, encoded, walk))
        on_step()
    return walk.chosen.numpy()


def choose(policy: Policy, encoded: Encoded, walk: Walk) -> Tensor:
    """(B, M) the node that the policy likes best, for each rollout."""
    return probabilities(policy, encoded, walk).argmax(-1)


def probabilities(policy: Policy, encoded: Encoded, walk: Walk) -> Tensor:
    """(B, M, N) of the next node, for each rollout."""
    assert policy.global_ is not None
    distance, angle = look_around(walk)
    u = global_scores(policy.global_, encoded, walk)
    u = u - penalty(policy.config, walk, distance)
    u = u + local_scores(policy.local, walk, distance, angle)
    return (policy.config.clip * u.tanh() + walk.mask).softmax(-1)


def look_around(walk: Walk) -> tuple[Tensor, Tensor]:
    """Distance and angle of all nodes seen from the current node, (B, M, N) each."""
    n = walk.coords.shape[1]
    distance = walk.distance.gather(1, walk.current[:, :, None].expand(-1, -1, n))
    relative = walk.coords[:, None] - gather_nodes(walk.coords, walk.current)[:, :, None]  # (B, M, N, 2)
    return distance, torch.atan2(relative[..., 1], relative[..., 0])


# --- global policy ---------------------------------------------------------------------------------------------------


def encode(net: GlobalPolicy, batch: Batch, first: Tensor) -> Encoded:
    """The encoder's own layers, which both decoders share, and what is computed once from the nodes."""
    nodes = net.embeddings(batch)
    keys, values = (split_heads(project(nodes), net.heads) for project in (net.key, net.value))
    query_first = None if net.query_first is None else net.query_first(gather_nodes(nodes, first))
    return Encoded(nodes, keys, values, query_first)


def global_scores(net: GlobalPolicy, encoded: Encoded, walk: Walk) -> Tensor:
    """u_global (B, M, N)."""
    query = net.query_last(gather_nodes(encoded.nodes, walk.current))
    if encoded.query_first is not None:
        query = query + encoded.query_first
    if net.query_load is not None and walk.load is not None and walk.capacity is not None:
        query = query + net.query_load((walk.load / walk.capacity)[:, :, None])
    glimpse = attention(split_heads(query, net.heads), encoded.keys, encoded.values, walk.mask[:, None])
    return net.combine(glimpse) @ encoded.nodes.transpose(1, 2) / math.sqrt(query.shape[2])


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Multi-head attention; mask is 0 or -inf. (..., H, M, d) -> (..., M, H * d)."""
    score = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + mask
    return (score.softmax(-1) @ value).transpose(-3, -2).flatten(-2)


# --- penalty and local policy ----------------------------------------------------------------------------------------


def nearest(config: PolicyConfig, walk: Walk, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distance over the largest, index and presence (B, M, K) of the K nearest valid nodes; the depot is not one."""
    far = distance - walk.mask  # +inf where a node may not come next
    if walk.demand is not None:
        far[:, :, 0] = INF
    value, index = far.topk(min(config.neighbours, far.shape[2]), largest=False, sorted=True)
    present = value < INF
    value = value.masked_fill(~present, 0.0)
    radius = value.amax(-1, keepdim=True)
    return value / radius.masked_fill(radius == 0, 1.0), index, present


def penalty(config: PolicyConfig, walk: Walk, distance: Tensor) -> Tensor:
    """Distance over the largest among the K nearest, xi elsewhere, 0 at the depot (B, M, N)."""
    share, index, present = nearest(config, walk, distance)
    out = torch.full_like(distance, config.xi).scatter_(2, index, share.masked_fill(~present, config.xi))
    if walk.demand is not None:
        out[:, :, 0] = 0.0
    return out


def local_scores(net: LocalPolicy, walk: Walk, distance: Tensor, angle: Tensor) -> Tensor:
    """u_local (B, M, N), 0 at nodes that are not among the K nearest."""
    share, index, present = nearest(net.config, walk, distance)
    token = tokens(net, walk, share, angle, index, present)
    if net.has_depot:  # the depot is token 0
        index = pad(index, (1, 0))
        present = torch.cat([walk.mask[:, :, :1] == 0, present], dim=2)
    score = token_scores(net, token, present)  # (B, M, T)
    return torch.zeros_like(distance).scatter_add_(2, index, score * present)


def tokens(net: LocalPolicy, walk: Walk, share: Tensor, angle: Tensor, index: Tensor, present: Tensor) -> Tensor:
    """Embedded neighbours (B, M, K or 1 + K, E): their features are zero where absent."""
    x = torch.stack([share, angle.gather(2, index)], dim=3)
    if walk.demand is not None and walk.load is not None:
        demand = walk.demand[:, None].expand_as(walk.mask).gather(2, index)
        x = torch.cat([x, (demand / walk.load.clamp(min=1)[:, :, None])[..., None]], dim=3)
    h = net.embed(x * present[..., None])
    if net.has_depot:
        h = torch.cat([net.depot.expand(*h.shape[:2], 1, -1), h], dim=2)
    return h + net.pe[: h.shape[2]]


def token_scores(net: LocalPolicy, token: Tensor, present: Tensor) -> Tensor:
    """The context vector attends to the tokens (B, M, T, E) and is compared with each, (B, M, T)."""
    context = net.context.expand(*token.shape[:2], 1, -1)
    query, key, value = (
        x.unflatten(-1, (net.config.local_heads, -1)).transpose(2, 3)  # (B, M, H, 1 or T, E / H)
        for x in (net.query(context), net.key(token), net.value(token))
    )
    mask = torch.zeros_like(token[..., 0]).masked_fill_(~present, -INF)[:, :, None, None]
    mask = mask.masked_fill((mask == -INF).all(-1, keepdim=True), 0.0)  # a rollout without tokens: any finite score
    summary = net.combine(attention(query, key, value, mask))  # (B, M, 1, E)
    return (summary @ token.transpose(2, 3)).squeeze(2) / math.sqrt(token.shape[3])


# --- environment -----------------------------------------------------------------------------------------------------


def begin(batch: Batch, first: Tensor) -> Walk:
    """The rollouts after their first move to `first` (B, M)."""
    coords = batch.coords.float()
    distance = torch.cdist(batch.coords, batch.coords, compute_mode="donot_use_mm_for_euclid_dist").float()
    shape = (*first.shape, coords.shape[1])
    walk = Walk(coords, distance, first[:, :, None][:, :, :0], torch.zeros(shape), torch.zeros(shape))
    if batch.demand is not None and batch.capacity is not None:
        walk.demand, walk.capacity = batch.demand.float(), batch.capacity[:, None].float()
        walk.load = walk.capacity.expand(first.shape).clone()
    move(walk, first)
    return walk


def move(walk: Walk, node: Tensor) -> None:
    """Go to `node` (B, M): extend the solutions, renew the masks."""
    walk.chosen = torch.cat([walk.chosen, node[:, :, None]], dim=2)
    walk.visited.scatter_(2, node[:, :, None], -INF)
    walk.mask = walk.visited.clone()
    if walk.demand is None or walk.load is None or walk.capacity is None:
        return
    at_depot = node == 0
    walk.load -= walk.demand.gather(1, node)
    walk.load = torch.where(at_depot, walk.capacity, walk.load)
    walk.visited[:, :, 0] = 0.0
    done = (walk.visited[:, :, 1:] == -INF).all(-1)
    walk.mask.masked_fill_(walk.demand[:, None] > walk.load[:, :, None], -INF)
    walk.mask[:, :, 0] = torch.where(at_depot & ~done, -INF, 0.0)


def finished(walk: Walk) -> bool:
    """Whether every node is served and, in CVRP, every vehicle is back."""
    if walk.demand is None:
        return walk.chosen.shape[2] == walk.coords.shape[1]
    return bool((walk.visited[:, :, 1:] == -INF).all() and (walk.current == 0).all())
