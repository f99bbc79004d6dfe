"""What the local policy sees: the K nearest valid nodes of a state, nearest first."""

from __future__ import annotations

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
    """Return the k nearest candidates (B, M, N) of the current nodes (B, M); the lower index wins a tie."""
    here = gather_nodes(batch.coords, current)
    dx, dy = (batch.coords[:, None, :, axis] - here[:, :, None, axis] for axis in (0, 1))  # (B, M, N) float64
    rho = (dx * dx + dy * dy).sqrt().float()
    # The bits of a positive float order like the float; the node's index below them breaks ties.
    key = rho.view(torch.int32).long() << 32 | torch.arange(rho.shape[-1], device=rho.device)
    key = torch.where(candidates, key, torch.iinfo(torch.int64).max)
    node = key.topk(min(k, key.shape[2]), largest=False, sorted=True).indices
    present = candidates.gather(2, node)
    rho = torch.where(present, rho.gather(2, node), 0.0)
    radius = rho.amax(-1, keepdim=True)
    theta = torch.atan2(dy.gather(2, node), dx.gather(2, node)).float()
    return Neighbourhood(node, present, rho, theta, torch.where(radius > 0, radius, 1.0))


def positional_encoding(length: int, width: int) -> Tensor:
    """(length, width) sinusoids: sines of geometric time scales 1..10,000, then their cosines."""
    scales = torch.exp(torch.arange(width // 2) * (-math.log(10_000.0) / max(width // 2 - 1, 1)))
    angle = torch.arange(length)[:, None] * scales
    return F.pad(torch.cat([angle.sin(), angle.cos()], dim=1), (0, width % 2))
