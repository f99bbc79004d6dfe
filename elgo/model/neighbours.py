"""What the local policy sees: the K nearest valid nodes of a state, nearest first."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from elgo.model.env import Batch, gather_nodes


class Neighbourhood(NamedTuple):
    """N_K(c_t): the K nearest valid nodes, nearest first, the depot not among them."""

    node: Tensor  # (B, M, K)
    present: Tensor  # (B, M, K) False where fewer than K nodes are valid
    rho: Tensor  # (B, M, K) float32 distance, 0 where absent
    theta: Tensor  # (B, M, K) float32 angle around the current node
    radius: Tensor  # (B, M, 1) max rho; 1 where that is 0


def nearest(batch: Batch, current: Tensor, candidates: Tensor, k: int) -> Neighbourhood:
    """The k nearest candidates (B, M, N) of the current nodes (B, M); of equal distances the lower index wins."""
    k = min(k, candidates.shape[2])
    search = _nearest_by_lists if current.shape[1] > 2 * candidates.shape[2] else _nearest_by_distance
    node, present, rho, theta = search(batch, current, candidates, k)
    rho = torch.where(present, rho, 0.0)
    radius = rho.amax(-1, keepdim=True)
    return Neighbourhood(node, present, rho, theta, torch.where(radius > 0, radius, 1.0))


def _nearest_by_distance(
    batch: Batch, current: Tensor, candidates: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Few states: compare the distances of all nodes in each of them."""
    dx, dy, rho = _view(batch, gather_nodes(batch.coords, current))
    key = torch.where(candidates, _order(rho), torch.iinfo(torch.int64).max)
    node = key.topk(k, largest=False, sorted=True).indices
    theta = torch.atan2(dy.gather(2, node), dx.gather(2, node)).float()
    return node, candidates.gather(2, node), rho.gather(2, node), theta


def _nearest_by_lists(
    batch: Batch, current: Tensor, candidates: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Many states: sort the nodes around each node once, and take the first k candidates of the current one's list."""
    dx, dy, rho = _view(batch, batch.coords)
    around = gather_nodes(_order(rho).sort(dim=-1).indices, current)  # (B, M, N)
    is_open = candidates.gather(2, around)
    count = is_open.cumsum(-1, dtype=torch.int32)
    # The i-th candidate goes into column i of 1..k; all others into columns 0 and k + 1, which are cut off.
    column = (count * is_open).clamp_(max=k + 1).long()
    node = torch.zeros(*current.shape, k + 2, dtype=torch.int64, device=current.device).scatter_(2, column, around)
    node = node[:, :, 1:-1].contiguous()
    present = torch.arange(k, device=current.device) < count[:, :, -1:]
    pair = (current[:, :, None] * candidates.shape[2] + node).flatten(1)
    rho, theta = (x.flatten(1).gather(1, pair).view_as(node) for x in (rho, torch.atan2(dy, dx).float()))
    return node, present, rho, theta


def _view(batch: Batch, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Offsets (float64) and distances (float32) of all nodes seen from points (B, M, 2), (B, M, N) each."""
    dx = batch.coords[:, None, :, 0] - points[:, :, None, 0]
    dy = batch.coords[:, None, :, 1] - points[:, :, None, 1]
    return dx, dy, (dx * dx + dy * dy).sqrt().float()


def _order(rho: Tensor) -> Tensor:
    """Keys that sort like the distances (..., N), and by the node's index where these are equal."""
    # The bits of a positive float order like the float; the node index below them breaks ties.
    return rho.view(torch.int32).long() << 32 | torch.arange(rho.shape[-1], device=rho.device)


def positional_encoding(length: int, width: int) -> Tensor:
    """(length, width) sinusoids: sines of geometric time scales 1..10,000, then their cosines."""
    scales = torch.exp(torch.arange(width // 2) * (-math.log(10_000.0) / max(width // 2 - 1, 1)))
    angle = torch.arange(length)[:, None] * scales
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, width % 2))
