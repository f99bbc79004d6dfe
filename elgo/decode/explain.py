"""One traced step: what global policy, local policy and ensemble say about the next node of a partial solution.

The plain twin of the compiled step, in numpy, for explaining and showing; tests compare it with torch. N nodes, T
tokens of the local policy, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elgo.decode.multistart import make_task
from elgo.model.checkpoint import Model, Weights, as_policy
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance
from elgo.problem.task import Task

if TYPE_CHECKING:
    from elgo.decode.encoder import Encoding

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class StepScores(NamedTuple):
    """The scores of all N nodes at one step: u = C tanh(u_global - penalty + u_local), p = softmax(u) of valid nodes.

    Scores of nodes that are not valid are 0. A policy that is switched off, and the local policy outside of its
    neighbourhood, add 0.
    """

    valid: NDArray[np.bool_]  # (N,) nodes that may come next
    neighbours: Integers  # (T,) valid nodes that the local policy sees, nearest first; in CVRP the depot before them
    global_scores: Floats  # (N,)
    penalty: Floats  # (N,)
    local_scores: Floats  # (N,)
    probability: Floats  # (N,)


def explain_step(
    model: str | Path | Model, instance: Instance, visited: Sequence[int], symmetry: int = 0
) -> StepScores:
    """Return what a model says about the node after `visited`.

    - `model`: as load_weights or load_model return it, or its name or file
    - `instance`: what is solved
    - `visited`: the nodes so far in their order, the current one last; in CVRP with the depot's 0 after each route
    - `symmetry`: of the 8 symmetries of the square, under which the model sees the instance

    Raises ElgoError if these nodes are no partial solution.
    """
    from elgo.decode.blas import one_blas_thread
    from elgo.decode.compiled import as_weights
    from elgo.decode.encoder import encode

    weights = as_weights(as_policy(model, instance.problem))
    if weights is None:
        raise ElgoError("model is a network that only torch knows: its scores are those of Policy.scores")
    task = make_task(instance, weights.config.normalisation, symmetry)
    valid, load = _state(instance.name, task, visited)
    with one_blas_thread():
        encoding = encode(weights, task) if weights.config.global_policy else None
    return step_scores(weights, task, encoding, list(visited), valid, load)


def _state(name: str, task: Task, visited: Sequence[int]) -> tuple[NDArray[np.bool_], int]:
    """Return the nodes that may come next and the units left in the vehicle; ElgoError for an impossible sequence."""
    if not visited:
        raise ElgoError(f"{name}: visited is empty, must have a first node")
    valid = np.ones(task.size, dtype=bool)
    load = capacity = task.capacity or 0
    for position, node in enumerate(visited):
        if not 0 <= node < task.size or not valid[node]:
            raise ElgoError(f"{name}: visited[{position}] is {node}, which may not come there")
        is_depot = task.demand is not None and node == 0
        if task.demand is None:
            valid[node] = False
            continue
        load = capacity if is_depot else load - int(task.demand[node])
        served = np.isin(np.arange(task.size), visited[: position + 1])
        valid = ~served & (task.demand <= load)
        valid[0] = not is_depot or bool(served[1:].all())
    if not valid.any() or (task.demand is not None and visited[-1] == 0 and valid[0]):
        raise ElgoError(f"{name}: visited is a complete solution: no node comes next")
    return valid, load


def step_scores(
    weights: Weights,
    task: Task,
    encoding: Encoding | None,
    visited: Sequence[int],
    valid: NDArray[np.bool_],
    load: int,
) -> StepScores:
    """Return the scores of an encoded task in a state: nodes that may come next, and units left in the vehicle."""
    config, n = weights.config, task.size
    of_global, penalty, of_local = (np.zeros(n, np.float32) for _ in range(3))
    if encoding is not None:
        of_global[valid] = _global_scores(weights, task, encoding, visited, valid, load)[valid]
    near, rho, theta = _neighbourhood(weights, task, visited[-1], valid)
    radius = max(rho.max(initial=0.0), np.finfo(np.float32).tiny)
    if config.penalty:
        penalty[valid] = config.xi
        penalty[near] = rho / (radius + config.penalty_slack)
        if config.has_depot:
            penalty[0] = 0.0
    seen = np.concatenate([[0], near]) if config.has_depot and valid[0] else near
    if config.local_policy and len(seen):
        of_local[seen] = _local_scores(weights, task, seen, rho / (radius + config.radius_slack), theta, load)
    u = np.tanh(of_global - penalty + of_local) * np.float32(config.clip)
    p = np.exp(u - u[valid].max()) * valid
    return StepScores(valid, seen, of_global, penalty, of_local, p / p.sum())


def _global_scores(
    weights: Weights, task: Task, encoding: Encoding, visited: Sequence[int], valid: NDArray[np.bool_], load: int
) -> Floats:
    """Return u_global (N,): one attention over the valid nodes, the glimpse, then its product with each node."""
    heads = weights.config.heads
    query = encoding.query_last[visited[-1]].copy()
    if encoding.query_first is not None:
        query += encoding.query_first[visited[0]]
    if task.capacity is not None:
        query += weights.tensors["global_.query_load.weight"][:, 0] * np.float32(load / task.capacity)
    keys, values = (x.reshape(len(x), heads, -1) for x in (encoding.keys, encoding.values))
    score = np.einsum("hd,nhd->hn", query.reshape(heads, -1), keys) / np.float32(math.sqrt(keys.shape[2]))
    weight = _softmax(np.where(valid, score, -np.inf))
    glimpse = np.einsum("hn,nhd->hd", weight, values).ravel()
    return encoding.readout @ glimpse + encoding.offset


def _neighbourhood(
    weights: Weights, task: Task, current: int, valid: NDArray[np.bool_]
) -> tuple[Integers, Floats, Floats]:
    """Return the K nearest valid nodes without the depot, nearest first, their distances and angles."""
    candidates = np.flatnonzero(valid)[int(weights.config.has_depot and bool(valid[0])) :]
    dx, dy = (task.coords[candidates] - task.coords[current]).T
    rho = np.sqrt(dx * dx + dy * dy).astype(np.float32)
    chosen = np.argsort(rho, kind="stable")[: weights.config.neighbours]
    return candidates[chosen], rho[chosen], np.arctan2(dy, dx).astype(np.float32)[chosen]


def _local_scores(weights: Weights, task: Task, seen: Integers, share: Floats, theta: Floats, load: int) -> Floats:
    """Return u_local of each token: the learned context attends to them, and its product with each is the score."""
    from elgo.decode.tables import rank_vectors

    config, tensors = weights.config, weights.tensors
    heads, width = config.local_heads, config.local_width
    features = np.zeros((len(seen), tensors["local.embed.weight"].shape[1]), np.float32)
    own = features[len(seen) - len(share) :]  # of the neighbours; the depot's are 0
    own[:, 0], own[:, 1] = share, theta
    if config.coordinates == "euclidean":
        own[:, 0], own[:, 1] = share * np.cos(theta), share * np.sin(theta)
    ranks = np.arange(len(seen)) + int(config.has_depot and len(seen) == len(share))  # the depot may not be there
    if task.demand is not None:
        own[:, 2] = task.demand[seen[len(seen) - len(share) :]] / max(load, 1)
    tokens = features @ tensors["local.embed.weight"].T + rank_vectors(weights)[ranks]
    query = (tensors["local.query.weight"] @ tensors["local.context"]).reshape(heads, -1)
    keys, values = (
        (tokens @ tensors[f"local.{name}.weight"].T).reshape(len(tokens), heads, -1) for name in ("key", "value")
    )
    weight = _softmax(np.einsum("hd,nhd->hn", query, keys) / np.float32(math.sqrt(width // heads)))
    mixed = np.einsum("hn,nhd->hd", weight, values).ravel()
    context = tensors["local.combine.weight"] @ mixed + tensors["local.combine.bias"]
    scores: Floats = tokens @ context / np.float32(math.sqrt(width))
    return scores


def _softmax(scores: Floats) -> Floats:
    weight: Floats = np.exp(scores - scores.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True)
