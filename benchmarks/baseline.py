"""The baseline of benchmarks/decode.py: a straightforward step-by-step decoder in torch, on our own weights.

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
    """What is computed once from the nodes."""

    nodes: Tensor  # (B, N, D)
    keys: Tensor  # (B, H, N, d)
    values: Tensor  # (B, H, N, d)
    query_first: Tensor | None  # (B, M, D) TSP: contribution of the first node to the query


@dataclass
class State:
    """B x M partial solutions, changed in place by each step."""

    coords: Tensor  # (B, N, 2)
    distance: Tensor  # (B, N, N)
    chosen: Tensor  # (B, M, t) nodes so far
    visited: Tensor  # (B, M, N) -inf for nodes that are served
    mask: Tensor  # (B, M, N) -inf for nodes that are not valid
    demand: Tensor | None = None  # (B, N) in units, exact in float32
    load: Tensor | None = None  # (B, M) units left
    capacity: Tensor | None = None  # (B, 1)

    @property
    def current(self) -> Tensor:
        return self.chosen[:, :, -1]


def check(config: PolicyConfig) -> None:
    """Raise ValueError unless the baseline implements this network: the paper's, with the depot as a token."""
    plain = PolicyConfig(config.problem)
    for field in ("global_policy", "local_policy", "penalty", "local_layers", "coordinates"):
        is_, known = getattr(config, field), getattr(plain, field)
        if is_ != known:
            raise ValueError(f"{field} is {is_!r}, the baseline implements {known!r} only")


def use_plain_torch() -> None:
    """Let torch multiply matrices as it does by itself in the rest of this process: by MKL, not by oneDNN."""
    torch.backends.mkldnn.enabled = False


@torch.inference_mode()
def decode(
    policy: Policy,
    tasks: Sequence[Task],
    starts: NDArray[np.int64],
    steps: int | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> NDArray[np.int64]:
    """Return the greedy rollouts (B, M, T) of B tasks of one size from the same starts (M,), the start first.

    Ends after `steps` steps if given. `on_step` is called after the encoder and after each step.
    """
    check(policy.config)
    batch = make_batch(tasks)
    first = torch.from_numpy(starts).expand(len(tasks), -1)
    assert policy.global_ is not None
    encoded = encode(policy.global_, batch, first)
    state = begin(batch, first)
    on_step()
    while not finished(state) and (steps is None or state.chosen.shape[2] <= steps):
        move(state, choose(policy, encoded, state))
        on_step()
    return state.chosen.numpy()


def choose(policy: Policy, encoded: Encoded, state: State) -> Tensor:
    """Return the most probable next node (B, M) of each rollout."""
    return probabilities(policy, encoded, state).argmax(-1)


def probabilities(policy: Policy, encoded: Encoded, state: State) -> Tensor:
    """Return the probabilities (B, M, N) of the next node."""
    assert policy.global_ is not None
    distance, angle = relative_positions(state)
    u = global_scores(policy.global_, encoded, state)
    u = u - penalty(policy.config, state, distance)
    u = u + local_scores(policy.local, state, distance, angle)
    return (policy.config.clip * u.tanh() + state.mask).softmax(-1)


def relative_positions(state: State) -> tuple[Tensor, Tensor]:
    """Return distance and angle of all nodes seen from the current node, (B, M, N) each."""
    n = state.coords.shape[1]
    distance = state.distance.gather(1, state.current[:, :, None].expand(-1, -1, n))
    relative = state.coords[:, None] - gather_nodes(state.coords, state.current)[:, :, None]  # (B, M, N, 2)
    return distance, torch.atan2(relative[..., 1], relative[..., 0])


# --- global policy ---------------------------------------------------------------------------------------------------


def encode(net: GlobalPolicy, batch: Batch, first: Tensor) -> Encoded:
    """Return what is computed once from the nodes, by the encoder that both decoders share."""
    nodes = net.embeddings(batch)
    keys, values = (split_heads(project(nodes), net.heads) for project in (net.key, net.value))
    query_first = None if net.query_first is None else net.query_first(gather_nodes(nodes, first))
    return Encoded(nodes, keys, values, query_first)


def global_scores(net: GlobalPolicy, encoded: Encoded, state: State) -> Tensor:
    """Return u_global (B, M, N)."""
    query = net.query_last(gather_nodes(encoded.nodes, state.current))
    if encoded.query_first is not None:
        query = query + encoded.query_first
    if net.query_load is not None and state.load is not None and state.capacity is not None:
        query = query + net.query_load((state.load / state.capacity)[:, :, None])
    glimpse = attention(split_heads(query, net.heads), encoded.keys, encoded.values, state.mask[:, None])
    return net.combine(glimpse) @ encoded.nodes.transpose(1, 2) / math.sqrt(query.shape[2])


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return the multi-head attention (..., M, H * d) of queries (..., H, M, d); mask is 0 or -inf."""
    score = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + mask
    return (score.softmax(-1) @ value).transpose(-3, -2).flatten(-2)


# --- penalty and local policy ----------------------------------------------------------------------------------------


def nearest(config: PolicyConfig, state: State, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return relative distance, index and presence (B, M, K) of the K nearest valid nodes without the depot."""
    far = distance - state.mask  # +inf for nodes that are not valid
    if state.demand is not None:
        far[:, :, 0] = INF
    value, index = far.topk(min(config.neighbours, far.shape[2]), largest=False, sorted=True)
    present = value < INF
    value = value.masked_fill(~present, 0.0)
    radius = value.amax(-1, keepdim=True)
    return value / radius.masked_fill(radius == 0, 1.0), index, present


def penalty(config: PolicyConfig, state: State, distance: Tensor) -> Tensor:
    """Return the penalty (B, M, N): relative distance for the K nearest, xi elsewhere, 0 for the depot."""
    share, index, present = nearest(config, state, distance)
    out = torch.full_like(distance, config.xi).scatter_(2, index, share.masked_fill(~present, config.xi))
    if state.demand is not None:
        out[:, :, 0] = 0.0
    return out


def local_scores(net: LocalPolicy, state: State, distance: Tensor, angle: Tensor) -> Tensor:
    """Return u_local (B, M, N), 0 for nodes that are not among the K nearest."""
    share, index, present = nearest(net.config, state, distance)
    token = tokens(net, state, share, angle, index, present)
    if net.has_depot:  # the depot is token 0
        index = pad(index, (1, 0))
        present = torch.cat([state.mask[:, :, :1] == 0, present], dim=2)
    score = token_scores(net, token, present)  # (B, M, T)
    return torch.zeros_like(distance).scatter_add_(2, index, score * present)


def tokens(net: LocalPolicy, state: State, share: Tensor, angle: Tensor, index: Tensor, present: Tensor) -> Tensor:
    """Return the embedded neighbours (B, M, K or 1 + K, E); features of absent ones are zero."""
    x = torch.stack([share, angle.gather(2, index)], dim=3)
    if state.demand is not None and state.load is not None:
        demand = state.demand[:, None].expand_as(state.mask).gather(2, index)
        x = torch.cat([x, (demand / state.load.clamp(min=1)[:, :, None])[..., None]], dim=3)
    h = net.embed(x * present[..., None])
    if net.has_depot:
        h = torch.cat([net.depot.expand(*h.shape[:2], 1, -1), h], dim=2)
    return h + net.pe[: h.shape[2]]


def token_scores(net: LocalPolicy, token: Tensor, present: Tensor) -> Tensor:
    """Return the scores (B, M, T) of tokens (B, M, T, E): each is compared with the context's attention to all."""
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


def begin(batch: Batch, first: Tensor) -> State:
    """Return the rollouts after their first move to `first` (B, M)."""
    coords = batch.coords.float()
    distance = torch.cdist(batch.coords, batch.coords, compute_mode="donot_use_mm_for_euclid_dist").float()
    shape = (*first.shape, coords.shape[1])
    state = State(coords, distance, first[:, :, None][:, :, :0], torch.zeros(shape), torch.zeros(shape))
    if batch.capacity.any():
        state.demand, state.capacity = batch.demand.float(), batch.capacity.float()
        state.load = state.capacity.expand(first.shape).clone()
    move(state, first)
    return state


def move(state: State, node: Tensor) -> None:
    """Move to `node` (B, M): extend the solutions and update the masks."""
    state.chosen = torch.cat([state.chosen, node[:, :, None]], dim=2)
    state.visited.scatter_(2, node[:, :, None], -INF)
    state.mask = state.visited.clone()
    if state.demand is None or state.load is None or state.capacity is None:
        return
    at_depot = node == 0
    state.load -= state.demand.gather(1, node)
    state.load = torch.where(at_depot, state.capacity, state.load)
    state.visited[:, :, 0] = 0.0
    done = (state.visited[:, :, 1:] == -INF).all(-1)
    state.mask.masked_fill_(state.demand[:, None] > state.load[:, :, None], -INF)
    state.mask[:, :, 0] = torch.where(at_depot & ~done, -INF, 0.0)


def finished(state: State) -> bool:
    """Return whether every node is served and, in CVRP, every vehicle is at the depot."""
    if state.demand is None:
        return state.chosen.shape[2] == state.coords.shape[1]
    return bool((state.visited[:, :, 1:] == -INF).all() and (state.current == 0).all())
