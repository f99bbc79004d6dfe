"""The window policy: a small transformer over the K nearest valid nodes, beyond the paper's light local policy.

It sees a state as the problem that is left: where we are, where the walk must end (the first node of a TSP tour, the
depot in CVRP: the anchor) and the K nearest valid nodes. Everything is measured in units of the window's radius, in a
frame with the current node at the origin and the anchor (the nearest neighbour, if we are at the anchor) on the
positive x axis. What it has learned on small instances therefore holds for large ones, wherever they are, however they
are turned and however large they are. What lies outside of the window it may know by kin (elgo.kin).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit
from torch import Tensor, nn

from elgo.kin import MOST_NODES, STRONG, Kin
from elgo.model.env import PROBLEMS, Batch, State, gather_nodes
from elgo.model.neighbours import Neighbourhood, positional_encoding
from elgo.plans import LEAST_SHARE, read_plans, show_ends
from elgo.rest import join_rest, make_rest, read_rest
from elgo.strands import FEATURES, make_space, read_strands

if TYPE_CHECKING:
    from elgo.model.policy import Cache, PolicyConfig

FAR = 2.0  # radii: what is further away is drawn at this distance, and the anchor's true one given as a logarithm


class Window(NamedTuple):
    """S states as the network takes them: token 0 is the anchor, tokens 1..K are the neighbours."""

    anchor: Tensor  # (S, A): its distance in radii at most FAR, log(1 + distance)[, load left as a share]
    nodes: Tensor  # (S, K, F): x, y, rho, how much nearer to the anchor, all in radii[, demand / load, demand / Q]
    present: Tensor  # (S, 1 + K) False where fewer than K nodes are valid
    kin: Tensor | None = None  # (S, 1 + K, 1 + K) among the tokens
    # With kin, the last features of the anchor are its kin to the current node and (a depot: 0) to all not visited,
    # those of the neighbours to the current node, to the anchor, and to all nodes that are not visited. In TSP, those
    # of elgo.strands are before these.


class WindowPolicy(nn.Module):
    """Self-attention over the window, biased by distance; a linear readout scores each token."""

    pe: Tensor

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.problem = PROBLEMS[config.problem]
        self.clip, self.sees_kin = config.clip, config.kin
        width, depot = config.local_width, self.problem.has_depot
        self.embed = nn.Linear((6 if depot else 4 + FEATURES * config.kin) + 3 * config.kin, width)
        self.embed_anchor = nn.Linear((3 if depot else 2 + config.kin) + 2 * config.kin, width)
        layer = partial(WindowLayer, width, config.local_heads, config.kin)
        self.layers = nn.ModuleList(layer() for _ in range(config.local_layers))
        self.readout = nn.Linear(width, 1)
        self.register_buffer("pe", positional_encoding(config.neighbours, width), persistent=False)

    def scores(self, cache: Cache, state: State, near: Neighbourhood, valid: Tensor) -> Tensor:
        """u_local of each candidate, (B, M, K), or (B, M, 1 + K) with the depot first; finite also where absent."""
        scores = self(self.window(cache, state, near)).unflatten(0, state.current.shape)
        return scores if self.problem.has_depot else scores[:, :, 1:]

    def window(self, cache: Cache, state: State, near: Neighbourhood) -> Window:
        """What the states (B, M) look like; S = B * M."""
        batch, kin, sparse = cache.batch, cache.kin, cache.sparse
        here = gather_nodes(batch.coords, state.current)
        there = gather_nodes(batch.coords, near.node.flatten(1)).view(*near.node.shape, 2) - here[:, :, None]
        anchor = gather_nodes(batch.coords, self.problem.anchor(state)) - here
        far = anchor.square().sum(-1, keepdim=True).sqrt()  # (B, M, 1)
        ahead = torch.where(far > 0, anchor, there[:, :, 0] * near.present[:, :, :1])
        norm = ahead.square().sum(-1, keepdim=True).sqrt()
        cosine, sine = torch.where(norm > 0, ahead / norm, ahead.new_tensor([1.0, 0.0])).unbind(-1)
        dx, dy = there.unbind(-1)
        left = (there - anchor[:, :, None]).square().sum(-1).sqrt()  # from the neighbours to the anchor
        radius = near.radius.double()
        # What lies beyond FAR (see show_kin) is drawn at this distance.
        scale = torch.where(near.rho > FAR * near.radius, near.rho.double() / FAR, radius)
        planes = [
            (dx * cosine[..., None] + dy * sine[..., None]) / scale,
            (dy * cosine[..., None] - dx * sine[..., None]) / scale,
            near.rho.double() / scale,
            (far - left) / scale,
        ]
        ends = [(far / radius).clamp(max=FAR), (far / radius).log1p()]
        if batch.demand is not None and batch.capacity is not None:
            demand = batch.demand.gather(1, near.node.flatten(1)).view_as(near.node).double()
            planes.append(demand / state.load.clamp(min=1)[:, :, None])
            planes.append(demand / batch.capacity[:, None, None])
            ends.append(self.problem.load_share(batch, state)[:, :, None])
        among = None
        if kin is not None:
            token = torch.cat([self.problem.anchor(state)[:, :, None], near.node], dim=2)
            among, to_here, left_over = see_kin(kin, state, token)
            if self.problem.has_depot:
                live = live_plans(batch, sparse, state, near)
                among, to_here = (strengthen(x, share) for x, share in zip((among, to_here), live, strict=True))
            else:
                seen, dead_ends = see_strands(sparse, state, near)
                planes += seen.unbind(-1)
                ends.append(dead_ends[:, :, None])
            planes += [to_here[:, :, 1:], among[:, :, 0, 1:], left_over[:, :, 1:]]
            # A depot has more kin the larger the instance is: what was learned from it would hold for one size only.
            ends += [to_here[:, :, :1], left_over[:, :, :1] * (not self.problem.has_depot)]
            among = among.flatten(0, 1)
        nodes = torch.stack([plane.float() for plane in planes], dim=-1) * near.present[..., None]
        anchors = torch.cat([end.float() for end in ends], dim=-1)
        present = F.pad(near.present, (1, 0), value=True)
        return Window(anchors.flatten(0, 1), nodes.flatten(0, 1), present.flatten(0, 1), among)

    def forward(self, window: Window) -> Tensor:
        """(S, 1 + K) scores of the anchor and the neighbours."""
        count = window.nodes.shape[1]
        h = torch.cat([self.embed_anchor(window.anchor)[:, None], self.embed(window.nodes) + self.pe[:count]], dim=1)
        places = torch.cat([F.pad(window.anchor[:, None, :1], (0, 1)), window.nodes[:, :, :2]], dim=1)
        distance = torch.cdist(places, places) * math.sqrt(len(self.pe))  # about 1 between neighbours
        closed = torch.zeros(window.present.shape, device=h.device).masked_fill_(~window.present, -torch.inf)
        for layer in self.layers:
            h = layer(h, distance[:, None], closed[:, None, None], window.kin)
        # The ensemble multiplies by C: without the division, steps of the optimiser would be C times too large here.
        return self.readout(h).squeeze(-1) / self.clip


def show_kin(near: Neighbourhood, batch: Batch, beside: Tensor, current: Tensor, candidates: Tensor) -> Neighbourhood:
    """Strong kin of the current node, two at most, instead of the farthest neighbours where these hide it.

    It is far away, but the radius stays that of the nearest, and none drives out other strong kin. Which nodes are
    strong kin of current (B, M), beside (B, M, N) says. The angles stay as they were: a window has its own.
    """
    # Empty places name any node: they must not hide that it is shown.
    shown = torch.zeros(candidates.shape, device=current.device).scatter_add(2, near.node, near.present.float()) > 0
    hidden = beside & candidates & ~shown
    free = near.present & ~beside.gather(2, near.node)
    turn = free.flip(2).cumsum(2).flip(2).masked_fill(~free, 0)  # 1 for the last that may give way
    node, rho = near.node, near.rho
    here = gather_nodes(batch.coords, current)
    for i in (1, 2):
        found, first = hidden.max(dim=2)  # the lowest index
        away = (gather_nodes(batch.coords, first) - here).square().sum(-1).sqrt().float()
        at = (turn == i) & found[:, :, None]
        node = torch.where(at, first[:, :, None], node)
        rho = torch.where(at, away[:, :, None], rho)
        hidden = hidden.scatter(2, first[:, :, None], False)
    return near._replace(node=node, rho=rho)


def show_plans(near: Neighbourhood, batch: Batch, sparse: Sequence[Kin], state: State, valid: Tensor) -> Neighbourhood:
    """An end of the strongest plans instead of the farthest neighbours, where we are at the depot (elgo.plans)."""
    hides = (state.current == 0) & (near.present.sum(-1) < valid.sum(-1))
    if not hides.any():
        return near
    parts = near.node, near.rho, hides, state.visited, batch.coords
    node, rho, hiding, visited, coords = (x.cpu().numpy().copy() for x in parts)
    for i, task in enumerate(sparse):
        _show_states(task.plans, coords[i], visited[i], hiding[i], node[i], rho[i])
    device = near.node.device
    return near._replace(node=torch.from_numpy(node).to(device), rho=torch.from_numpy(rho).to(device))


@njit(cache=True, nogil=True)
def _show_states(plans, coords, visited, hiding, node, rho):  # type: ignore[no-untyped-def]
    n = len(plans.at) - 1  # without padding
    for s in np.flatnonzero(hiding):
        show_ends(plans, 0, coords, visited[s, :n], node[s], rho[s], node.shape[1])


def see_kin(kin: Tensor, state: State, token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the tokens (B, M, T) show of kin (B, N, N): among them, to the current node, to all that are not visited."""
    b, n, _ = kin.shape
    rows = (token + n * torch.arange(b, device=token.device)[:, None, None]) * n
    among = kin.take(rows[..., None] + token[:, :, None])
    to_here = kin.take(rows + state.current[:, :, None])
    return among, to_here, ((~state.visited).float() @ kin).gather(2, token)


def live_plans(batch: Batch, sparse: Sequence[Kin], state: State, near: Neighbourhood) -> tuple[Tensor, Tensor]:
    """Shares of the plans that are left in the states (B, M), and of what savings make of the rest: among the tokens
    (B, M, T, T), to the current node."""
    assert batch.demand is not None
    assert batch.capacity is not None
    b, m, k = near.node.shape
    among, to_here = np.zeros((b, m, 1 + k, 1 + k), np.float32), np.zeros((b, m, 1 + k), np.float32)
    parts = state.current, state.load, state.visited, near.node, near.present.sum(-1), batch.demand
    current, load, visited, node, count, demand = (x.cpu().numpy() for x in parts)
    for i, task in enumerate(sparse):
        goods, walks = (demand[i], int(batch.capacity[i])), (current[i], load[i], visited[i], node[i], count[i])
        _read_states(task, *goods, *walks, among[i], to_here[i])
    device = near.node.device
    return torch.from_numpy(among).to(device), torch.from_numpy(to_here).to(device)


@njit(cache=True, nogil=True)
def _read_states(kin, demand, capacity, current, load, visited, node, count, among, to_here):  # type: ignore[no-untyped-def]
    n = len(kin.begin) - 1  # without padding
    slot, rest = np.full(n, -1), make_rest(n)
    for s in range(len(current)):
        read_plans(kin.plans, 0, current[s], visited[s], node[s], count[s], slot, among[s], to_here[s])
        if len(kin.pairs) > 0:
            join_rest(kin.pairs, demand, capacity, current[s], load[s], visited[s, :n], rest)
            read_rest(rest.links, current[s], node[s], count[s], slot, among[s], to_here[s])


def see_strands(sparse: Sequence[Kin], state: State, near: Neighbourhood) -> tuple[Tensor, Tensor]:
    """What elgo.strands says of moves to the neighbours (B, M, K, 4) in TSP, and of the states (B, M).

    All 0 in instances that are too large for linear programs: there it takes long and, without these, tells little.
    """
    seen = np.zeros((*near.node.shape, FEATURES), np.float32)
    ends = np.zeros(state.current.shape, np.float32)
    first, current, visited, node = (x.cpu().numpy() for x in (state.first, state.current, state.visited, near.node))
    count = near.present.sum(-1).cpu().numpy()
    for i, task in enumerate(sparse):
        if len(task.begin) - 1 > MOST_NODES:
            continue
        to_go = ~visited[i, :, : len(task.begin) - 1]  # without padding
        _strand_states(task, first[i], current[i], to_go, node[i], count[i], seen[i], ends[i])
    return torch.from_numpy(seen).to(near.node.device), torch.from_numpy(ends).to(near.node.device)


@njit(cache=True, nogil=True)
def _strand_states(kin, first, current, to_go, node, count, seen, ends):  # type: ignore[no-untyped-def]
    space = make_space(to_go.shape[1])
    for s in range(len(first)):
        space.is_open[:] = to_go[s]
        ends[s] = read_strands(kin, 0, first[s], current[s], node[s], count[s], space, seen[s])


def strengthen(kin: Tensor, share: Tensor) -> Tensor:
    """Kin of pairs that plans join is strong."""
    return torch.where(share > LEAST_SHARE, STRONG + (1 - STRONG) * share.clamp(max=1), kin)


class WindowLayer(nn.Module):
    """Self-attention and a feed-forward block; residuals with learned scales need no normalisation (ReZero)."""

    def __init__(self, width: int, heads: int, kin: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.combine = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale1 = nn.Parameter(torch.full((width,), 0.3))
        self.scale2 = nn.Parameter(torch.full((width,), 0.3))
        # One head begins without bias, the others halve from 4 on, as in ALiBi.
        self.slope = nn.Parameter(torch.tensor([0.0, *(2.0 ** (2 - h) for h in range(heads - 1))]))
        self.kin = nn.Parameter(torch.tensor([1.0, *(2.0 for _ in range(heads - 1))])) if kin else None

    def forward(self, x: Tensor, distance: Tensor, closed: Tensor, kin: Tensor | None) -> Tensor:
        """x (S, T, E), distance (S, 1, T, T), closed (S, 1, 1, T) 0 or -inf, kin (S, T, T) or None."""
        s, t, width = x.shape
        # Contiguous heads and plain products: on a CPU twice as fast as scaled_dot_product_attention at this size.
        q, k, v = self.qkv(x).view(s, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).reshape(3, s * self.heads, t, -1)
        bias = torch.addcmul(closed, distance, -self.slope[:, None, None])
        if self.kin is not None and kin is not None:
            bias = torch.addcmul(bias, kin[:, None], self.kin[:, None, None])
        bias = bias.flatten(0, 1)
        weight = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=1 / math.sqrt(width // self.heads)).softmax(-1)
        attended = (weight @ v).view(s, self.heads, t, -1).transpose(1, 2).reshape(s, t, width)
        x = x + self.scale1 * self.combine(attended)
        return x + self.scale2 * self.down(F.relu(self.up(x)))
