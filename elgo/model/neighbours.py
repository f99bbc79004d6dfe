"""What the local policy sees: the K nearest valid nodes of a state, nearest first, and in CVRP the depot before them.

Shapes: B instances, M states, N nodes, C of them candidates (all, but not the depot), K neighbours, T tokens.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from elgo.model.env import Batch, gather_nodes

ALL_LISTS = 4096  # nodes up to which the lists of all nodes are made: they take 16 to 20 N^2 bytes


class NeighbourLists(NamedTuple):
    """The candidates around each of P nodes of an instance, the same in every state."""

    order: Tensor  # (B * P, C) nearest first; of equal distances the lower index comes first
    rank: Tensor  # (K,) 0 to K - 1
    seen: Tensor  # (B * P * N, 2 or 3) float32 rho, theta and in CVRP demand of each node, all 0 for the depot


class Neighbourhood(NamedTuple):
    """The tokens of the local policy: N_K(c_t), nearest first; in CVRP, token 0 is the depot and these are 1..K.

    The depot has no distance, angle and demand. Where fewer than K nodes are valid, the current node, which is not
    valid and has no distance, takes the place of the absent ones.
    """

    node: Tensor  # (B, M, T)
    present: Tensor  # (B, M, T) True for valid nodes
    relative: Tensor  # (B, M, T) float32 rho_i / max rho
    radius: Tensor  # (B, M, 1) float32 max rho, at least a tiny number
    theta: Tensor  # (B, M, T) float32 angle around the current node
    demand: Tensor | None  # (B, M, T) float32; None in TSP

    def share(self, slack: float) -> Tensor:
        """(B, M, T) rho_i / (max rho + slack)."""
        return self.relative * (self.radius / (self.radius + slack)) if slack else self.relative


def neighbour_lists(batch: Batch, points: Tensor, has_depot: bool, k: int) -> NeighbourLists:
    """Sort the candidates around points (B, P, 2), for neighbourhoods of k of them."""
    dx = batch.coords[:, None, :, 0] - points[:, :, None, 0]
    dy = batch.coords[:, None, :, 1] - points[:, :, None, 1]
    rho, theta = (dx * dx + dy * dy).sqrt().float(), torch.atan2(dy, dx).float()
    # The bits of a positive float order like the float; the node's index below them breaks ties.
    key = rho.view(torch.int32).long() << 32 | torch.arange(rho.shape[2], device=rho.device)
    order = key[:, :, int(has_depot) :].sort(dim=-1).values & 0xFFFFFFFF
    if has_depot:  # a token without distance or angle: those of a far depot would grow with N
        rho[:, :, 0] = theta[:, :, 0] = 0
    seen = [rho, theta, batch.demand[:, None].float().expand_as(rho)][: 2 + has_depot]
    rank = torch.arange(min(k, order.shape[2]), device=rho.device)
    return NeighbourLists(order.flatten(0, 1), rank, torch.stack(seen, dim=3).flatten(0, 2))


def rows_of_lists(
    batch: Batch, current: Tensor, has_depot: bool, k: int, lists: NeighbourLists | None
) -> tuple[NeighbourLists, Tensor]:
    """The lists of all nodes and the rows (B, M) of the current ones in them.

    If they are not given, they are made now: where there are fewer states than nodes, those of the current nodes alone.
    """
    n = batch.coords.shape[1]
    if lists is None and n > min(current.shape[1], ALL_LISTS):
        lists = neighbour_lists(batch, gather_nodes(batch.coords, current), has_depot, k)
        return lists, torch.arange(current.numel(), device=current.device).view(current.shape)
    return lists or neighbour_lists(batch, batch.coords, has_depot, k), current + batch.first_row


def nearest(lists: NeighbourLists, row: Tensor, current: Tensor, valid: Tensor) -> Neighbourhood:
    """The tokens of states, given current nodes (B, M), their rows (B, M) of the lists and valid nodes (B, M, N)."""
    n, candidates = valid.shape[2], lists.order.shape[1]
    k, has_depot = len(lists.rank), candidates < n
    order = F.embedding(row, lists.order)
    is_open = valid.gather(2, order)
    count = is_open.cumsum(-1)
    # The i-th valid node goes into column i of 1..k; all others into columns 0 and k + 1, which are cut off.
    column = (count * is_open).clamp_(max=k + 1)
    node = current[:, :, None].expand(-1, -1, k + 2).scatter(2, column, order)[:, :, 1:-1]
    present = lists.rank < count[:, :, -1:]
    if has_depot:
        node, present = F.pad(node, (1, 0)), torch.cat([valid[:, :, :1], present], dim=2)
    rho, theta, *demand = F.embedding(torch.add(node, row[:, :, None], alpha=n), lists.seen).unbind(-1)
    radius = rho.amax(-1, keepdim=True).clamp_(min=torch.finfo(rho.dtype).tiny)  # 0 if all are where we are
    return Neighbourhood(node, present, rho / radius, radius, theta, demand[0] if has_depot else None)


def positional_encoding(length: int, width: int) -> Tensor:
    """(length, width) sinusoids: sines of geometric time scales 1..10,000, then their cosines."""
    scales = torch.exp(torch.arange(width // 2) * (-math.log(10_000.0) / max(width // 2 - 1, 1)))
    angle = torch.arange(length)[:, None] * scales
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, width % 2))
