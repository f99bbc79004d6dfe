"""What the package asks of a policy, and what the ensemble asks of its global policy.

Nothing has to inherit from these classes: any nn.Module with their members will do. Shapes: B instances, M rollouts, N
nodes. `Batch`, `State` and `Environment` are those of `elgo.model.env`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from elgo.model.config import PolicyConfig
from elgo.model.env import Batch, Environment, State


class GlobalPolicyLike(Protocol):
    """A global policy of the ensemble: `Policy(config, MyGlobalPolicy)` makes it as MyGlobalPolicy(config).

    The ensemble adds the rest: u = C tanh(u_global - penalty + u_local) for valid nodes, -inf otherwise.
    """

    def encode(self, batch: Batch) -> Any:
        """Return all that no step changes, computed once per instance; its field `batch` is the batch itself."""

    def scores(self, encoding: Any, state: State, mask: Tensor) -> Tensor:
        """Return u_global (B, M, N), finite for all nodes; mask (B, M, N) is 0 for valid nodes and -inf for others."""


MakeGlobalPolicy = Callable[[PolicyConfig], GlobalPolicyLike]


class PolicyLike(Protocol):
    """A policy that `rollouts`, `log_prob`, `solve` and benchmarks take; the ensemble, which can be trained, is one.

    Solutions are built by `env`: state = env.start(batch, starts), then state = env.step(batch, state, chosen) with
    nodes chosen by the logits, until env.finished(batch, state).
    """

    @property
    def config(self) -> PolicyConfig:
        """The problem, how coordinates are normalised, and the network."""

    @property
    def env(self) -> Environment:
        """The environment of the problem: ENVIRONMENTS[config.problem]."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the parameters, as every nn.Module does."""

    def encode(self, batch: Batch) -> Any:
        """Return all that no step changes, with a field `batch`. Gradients flow through it."""

    def prepare(self, encoding: Any) -> Any:
        """Return the encoding for the many steps of rollouts, which have no gradient; it may be returned as it is."""

    def scores(self, encoding: Any, state: State) -> tuple[Tensor, Tensor]:
        """Return scores and mask, both (B, M, N); a greedy rollout takes the node with the largest sum.

        The mask is 0 for valid nodes and -inf for others.
        """

    def logits(self, encoding: Any, state: State) -> Tensor:
        """Return (B, M, N), -inf for nodes that may not come next: p = softmax(logits)."""
