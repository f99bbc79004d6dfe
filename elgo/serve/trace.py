"""The replay of one greedy construction by a policy: what its parts say at every step."""

from __future__ import annotations

import numpy as np

from elgo.decode.explain import StepScores, step_scores
from elgo.decode.multistart import make_task
from elgo.model.checkpoint import load_weights
from elgo.problem.instance import Instance
from elgo.serve.errors import Refused
from elgo.serve.models import CandidateView, StepView, TraceView

MOST_NODES = 300


def trace_construction(instance: Instance, model: str, start: int | None) -> TraceView:
    """Return every step of the construction that begins at a node; by default the first that is not the depot."""
    if instance.size > MOST_NODES:
        raise Refused(422, f"DIMENSION is {instance.size}, but a trace has at most {MOST_NODES} nodes", "id")
    first = 0 if instance.problem == "tsp" else 1
    start = first if start is None else start
    if not first <= start < instance.size:
        raise Refused(422, f"start is {start}, expected {first}..{instance.size - 1}", "start")
    from elgo.decode.blas import one_blas_thread
    from elgo.decode.encoder import encode

    weights = load_weights(model, instance.problem)
    task = make_task(instance, weights.config.normalisation)
    with one_blas_thread():
        encoding = encode(weights, task)
    demand = np.zeros(task.size, np.int64) if task.demand is None else task.demand
    visited, served, left = [start], np.zeros(task.size, bool), (task.capacity or 0) - int(demand[start])
    served[start] = True
    steps: list[StepView] = []
    while True:
        current = visited[-1]
        valid = ~served if task.capacity is None else ~served & (demand <= left)
        if task.capacity is not None:
            valid[0] = current != 0
        if not valid.any():
            return TraceView(model=model, steps=steps)
        scores = step_scores(weights, task, encoding, visited, valid, left)
        before_tanh = scores.global_scores - scores.penalty + scores.local_scores
        chosen = int(np.where(valid, before_tanh, -np.inf).argmax())
        steps.append(_step(scores, current, chosen, _load(instance, visited)))
        visited.append(chosen)
        served[chosen] = chosen != 0 or task.capacity is None
        left = (task.capacity or 0) if chosen == 0 else left - int(demand[chosen])


def _load(instance: Instance, visited: list[int]) -> float | None:
    """Return what the vehicle carries after these nodes."""
    if instance.demand is None:
        return None
    route = visited[len(visited) - visited[::-1].index(0) :] if 0 in visited else visited
    return float(f"{instance.demand[route].sum():.12g}")


def _step(scores: StepScores, current: int, chosen: int, load: float | None) -> StepView:
    """Return a step with the neighbourhood of the local policy, the depot and the chosen node."""
    nodes = dict.fromkeys([*scores.neighbours.tolist(), chosen])
    candidates = [
        CandidateView(
            node=node,
            global_=float(scores.global_scores[node] - scores.penalty[node]),
            local=float(scores.local_scores[node]),
            probability=float(scores.probability[node]),
        )
        for node in nodes
    ]
    return StepView(current=current, chosen=chosen, load=load, candidates=candidates)
