"""The ensemble of the global and the local policy: penalty, clipping, probabilities.

Shapes: B instances, M rollouts, N nodes, K neighbours, T actions, S steps.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elgo.model.config import PolicyConfig
from elgo.model.env import ENVIRONMENTS, Batch, State
from elgo.model.global_policy import Encoding, GlobalPolicy
from elgo.model.local_policy import LocalPolicy
from elgo.model.neighbours import Neighbourhood, nearest


class Policy(nn.Module):
    """The ensemble: u_i = C tanh(u_global_i - penalty_i + u_local_i) for valid nodes, -inf otherwise."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        self.env = ENVIRONMENTS[config.problem]
        self.global_ = GlobalPolicy(config) if config.global_policy else None
        self.local = LocalPolicy(config)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(self, batch: Batch) -> Encoding:
        """Return all that does not change from step to step. Gradients flow through it."""
        if self.global_ is not None:
            return self.global_.encode(batch)
        empty = torch.empty(0, device=batch.coords.device)
        return Encoding(batch, empty, None, empty, empty, empty, empty)

    def scores(self, encoding: Encoding, state: State) -> tuple[Tensor, Tensor]:
        """Return u_global - penalty + u_local and a mask, both (B, M, N): 0 for valid nodes, -inf for others.

        The scores of nodes that are not valid are finite and meaningless. Greedy decoding compares these scores: tanh
        keeps their order but rounds large ones into ties.
        """
        batch = encoding.batch
        valid = self.env.valid(batch, state)
        candidates = valid
        if self.env.has_depot:  # the depot is a token of its own, never one of the K
            candidates = torch.cat([torch.zeros_like(valid[:, :, :1]), valid[:, :, 1:]], dim=2)
        near = nearest(batch, state.current, candidates, self.config.neighbours)
        mask = torch.zeros(valid.shape, device=valid.device).masked_fill_(~valid, -torch.inf)
        u = torch.zeros_like(mask)
        if self.global_ is not None:
            u = self.global_.scores(encoding, state, mask).float()  # also under autocast
        if self.config.penalty:
            u = u - self.config.xi
        node, score = self._neighbour_scores(batch, state, near, valid)
        return u.scatter_add(2, node, score), mask

    def _neighbour_scores(
        self, batch: Batch, state: State, near: Neighbourhood, valid: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return nodes (B, M, K or 1 + K) and what to add to the score of each: u_local and xi - penalty.

        The penalty is rho_i / max rho in N_K, xi outside and 0 for the depot token.
        """
        slack = self.config.penalty_slack
        node, present, share = near.node, near.present, near.rho / (near.radius + slack if slack else near.radius)
        if self.env.has_depot:
            node, share = F.pad(node, (1, 0)), F.pad(share, (1, 0))
            present = F.pad(present, (1, 0), value=True)
        score = self.config.xi - share if self.config.penalty else torch.zeros_like(share)
        if self.config.local_policy:
            score = score + self.local.scores(batch, state, near, valid)
        return node, score * present

    def logits(self, encoding: Encoding, state: State) -> Tensor:
        """(B, M, N): C tanh(u), -inf where a node may not come next."""
        u, mask = self.scores(encoding, state)
        return torch.add(mask, u.tanh(), alpha=self.config.clip)

    def move_log_prob(self, encoding: Encoding, state: State, chosen: Tensor) -> Tensor:
        """(B, M) log-probability of moving to `chosen` (B, M) in each state."""
        return self.logits(encoding, state).log_softmax(-1).gather(2, chosen[:, :, None]).squeeze(2)

    def log_prob(self, batch: Batch, actions: Tensor, steps: Tensor | None = None) -> Tensor:
        """(B, M, S) log-probabilities of the actions at `steps` (S,) of complete sequences (B, M, T).

        They are computed in one parallel pass, and equal to stepping through `logits`. By default at 1..T-1: the first
        action is the given start. Padding, where a finished rollout stays, has log-probability 0.
        """
        if steps is None:
            steps = torch.arange(1, actions.shape[2], device=actions.device)
        state = self.env.along(batch, actions, steps)
        chosen = actions[:, :, steps].flatten(1, 2)
        return self.move_log_prob(self.encode(batch), state, chosen).view(*actions.shape[:2], -1)


def with_local(policy: Policy, on: bool) -> Policy:
    """Return a policy with the same parameters and the local policy switched on or off: how a training stage begins."""
    other = Policy(replace(policy.config, local_policy=on))
    other.load_state_dict(policy.state_dict())
    return other
