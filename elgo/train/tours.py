"""Log-probabilities of tours of one instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elgo.decode.multistart import make_task, routes
from elgo.model.checkpoint import check_problem, load_model
from elgo.model.device import require_torch
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.solution import Solution

if TYPE_CHECKING:
    from torch import Tensor

    from elgo.model.protocols import PolicyLike


def log_prob(
    policy: str | Path | PolicyLike, instance: Instance, tours: Iterable[Sequence[int] | NDArray[np.integer]]
) -> Tensor:
    """Return log p (M,) of each of M tours, given its start node, as a tensor through which gradients flow.

    - `policy`: such as load_model returns, or its name or file
    - `instance`: what is solved
    - `tours`: node sequences as `rollouts` returns them; they may differ in length

    A route of a CVRP ends with the depot's 0, the last one too: that move has a probability like all others.
    Raises ElgoError for a tour that is not a solution of the instance.
    """
    require_torch("log_prob")
    import torch

    from elgo.model.env import make_batch
    from elgo.model.rollout import log_prob as batch_log_prob

    if isinstance(policy, str | Path):
        policy = load_model(policy, instance.problem)
    check_problem(policy, instance.problem)
    task = make_task(instance, policy.config.normalisation)
    sequences = [_moves(instance, number, np.asarray(tour)) for number, tour in enumerate(tours)]
    longest = max(map(len, sequences), default=0)
    if not longest:
        raise ElgoError(f"{instance.name}: tours is empty")
    actions = np.stack([np.pad(nodes, (0, longest - len(nodes)), mode="edge") for nodes in sequences])
    batch = make_batch([task]).to(policy.device)
    return batch_log_prob(policy, batch, torch.from_numpy(actions)[None].to(policy.device)).sum(2)[0]


def _moves(instance: Instance, number: int, tour: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the moves of a tour: in CVRP with one 0 after each route; ElgoError if it is not a solution."""
    where = f"{instance.name}: tours[{number}]"
    if tour.ndim != 1 or tour.dtype.kind not in "iu":
        raise ElgoError(f"{where} has shape {tour.shape} and type {tour.dtype}, expected a sequence of nodes")
    solution = Solution(instance, routes(instance, tour.astype(np.int32)))
    if solution.violations:
        raise ElgoError(f"{where}: {solution.violations[0]}")
    if instance.problem == "tsp":
        return tour.astype(np.int64)
    start = [0] if tour[0] == 0 else []  # the published code starts there, too
    return np.array([*start, *chain(*((*route, 0) for route in solution.routes))])
