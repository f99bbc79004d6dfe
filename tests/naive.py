"""Naive twins: the method's formulas as loops over nodes and heads, in float64, one task and one partial solution at a
time. Written from the formulas and not from the package, of which only the names of parameters and options
are used.

A partial solution is the list of nodes chosen so far. A CVRP has the depot as node 0, which ends a route.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Weights = Mapping[str, np.ndarray]
Vector = np.ndarray


# --- the problems


def load_left(task: Any, chosen: Sequence[int]) -> int:
    """What the vehicle can still take; 0 in TSP."""
    if task.demand is None:
        return 0
    left = task.capacity
    for node in chosen:
        left = task.capacity if node == 0 else left - task.demand[node]
    return int(left)


def valid_nodes(task: Any, chosen: Sequence[int]) -> list[int]:
    """Nodes that may come next, in order."""
    n = len(task.coords)
    if task.demand is None:
        return [node for node in range(n) if node not in chosen] or [chosen[-1]]
    customers = [node for node in range(1, n) if node not in chosen]
    fitting = [node for node in customers if task.demand[node] <= load_left(task, chosen)]
    return fitting if customers and chosen[-1] == 0 else [0, *fitting]


def is_over(task: Any, chosen: Sequence[int]) -> bool:
    """Whether every node has been visited and, in CVRP, the vehicle is back."""
    if task.demand is None:
        return len(set(chosen)) == len(task.coords)
    return len({*chosen, 0}) == len(task.coords) and chosen[-1] == 0


def is_solution(task: Any, chosen: Sequence[int]) -> bool:
    """Whether every node is visited once, no route carries more than the capacity and the walk is over.

    Waiting at the depot after the end is allowed.
    """
    first = 0 if task.demand is None else 1
    once = sorted(node for node in chosen if node >= first) == list(range(first, len(task.coords)))
    fits = task.demand is None or all(load_left(task, chosen[: t + 1]) >= 0 for t in range(len(chosen)))
    return once and fits and is_over(task, chosen)


def length(task: Any, chosen: Sequence[int]) -> float:
    """Euclidean length of the closed walk, from the depot in CVRP."""
    walk = list(chosen) if task.demand is None else [0, *chosen]
    return sum(math.dist(task.coords[a], task.coords[b]) for a, b in zip(walk, [*walk[1:], walk[0]], strict=True))


# --- attention


def linear(weights: Weights, name: str, x: Vector) -> Vector:
    """W x, and + b where the layer has one."""
    out = weights[f"{name}.weight"] @ x
    return out + weights[f"{name}.bias"] if f"{name}.bias" in weights else out


def softmax(scores: Sequence[float]) -> list[float]:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def attend(query: Vector, keys: Sequence[Vector], values: Sequence[Vector], heads: int) -> Vector:
    """Multi-head attention of one query: the concatenated heads."""
    f = len(query) // heads
    out = []
    for h in range(heads):
        part = slice(h * f, (h + 1) * f)
        scores = [float(query[part] @ key[part]) / math.sqrt(f) for key in keys]
        share = softmax(scores)
        out.append(sum(w * value[part] for w, value in zip(share, values, strict=True)))
    return np.concatenate(out)


# --- the global policy


def instance_norm(rows: Sequence[Vector], weight: Vector, bias: Vector) -> list[Vector]:
    """Each feature to mean 0 and variance 1 over the nodes, then scaled and shifted."""
    columns = []
    for j in range(len(weight)):
        column = [row[j] for row in rows]
        mean = sum(column) / len(column)
        variance = sum((x - mean) ** 2 for x in column) / len(column)
        columns.append([(x - mean) / math.sqrt(variance + 1e-5) * weight[j] + bias[j] for x in column])
    return list(np.array(columns).T)


def self_attention(
    weights: Weights,
    name: str,
    rows: Sequence[Vector],
    heads: int,
) -> list[Vector]:
    """Attention of each row to all rows, without bias on q, k and v, added to the row."""
    width = len(rows[0])
    q, k, v = ([matrix @ row for row in rows] for matrix in weights[f"{name}.qkv.weight"].reshape(3, width, width))
    mixed = [attend(query, k, v, heads) for query in q]
    return [row + linear(weights, f"{name}.combine", m) for row, m in zip(rows, mixed, strict=True)]


def feed_forward(weights: Weights, name: str, row: Vector) -> Vector:
    """Two layers with ReLU between, added to the row."""
    return row + linear(weights, f"{name}.down", np.maximum(linear(weights, f"{name}.up", row), 0))


def encoder_layer(
    weights: Weights,
    name: str,
    rows: Sequence[Vector],
    heads: int,
) -> list[Vector]:
    rows = self_attention(weights, name, rows, heads)
    rows = instance_norm(rows, weights[f"{name}.norm1.weight"], weights[f"{name}.norm1.bias"])
    rows = [feed_forward(weights, name, row) for row in rows]
    return instance_norm(rows, weights[f"{name}.norm2.weight"], weights[f"{name}.norm2.bias"])


def encode(weights: Weights, config: Any, task: Any) -> list[Vector]:
    """The embedding of each node."""
    if task.demand is None:
        rows = [linear(weights, "global_.embed", xy) for xy in task.coords]
    else:
        rows = [linear(weights, "global_.embed_depot", task.coords[0])]
        for xy, demand in zip(task.coords[1:], task.demand[1:], strict=True):
            rows.append(linear(weights, "global_.embed", np.array([*xy, demand / task.capacity])))
    for i in range(config.layers):
        rows = encoder_layer(weights, f"global_.layers.{i}", rows, config.heads)
    return rows


def global_scores(
    weights: Weights, config: Any, task: Any, chosen: Sequence[int], rows: Sequence[Vector]
) -> dict[int, float]:
    """u_global of each valid node from the embeddings of all nodes."""
    query = linear(weights, "global_.query_last", rows[chosen[-1]])
    if task.demand is None:
        query = query + linear(weights, "global_.query_first", rows[chosen[0]])
    else:
        query = query + linear(weights, "global_.query_load", np.array([load_left(task, chosen) / task.capacity]))
    nodes = valid_nodes(task, chosen)
    keys = [linear(weights, "global_.key", rows[node]) for node in nodes]
    values = [linear(weights, "global_.value", rows[node]) for node in nodes]
    glimpse = linear(weights, "global_.combine", attend(query, keys, values, config.heads))
    return {node: float(glimpse @ rows[node]) / math.sqrt(config.width) for node in nodes}


# --- the local policy


def neighbourhood(task: Any, chosen: Sequence[int], k: int) -> list[tuple[int, float]]:
    """N_K: the k nearest valid nodes with their distances, nearest first, of equals the lower index; no depot."""
    here = task.coords[chosen[-1]]
    nodes = [node for node in valid_nodes(task, chosen) if task.demand is None or node != 0]
    rho = {node: math.dist(task.coords[node], here) for node in nodes}
    nearest = sorted(nodes, key=lambda node: (round(rho[node], 9), node))  # rounding errors do not break a tie
    return [(node, rho[node]) for node in nearest[:k]]


def radius(near: Sequence[tuple[int, float]]) -> float:
    """max rho in N_K; 1 where that gives no scale."""
    return max((rho for _, rho in near), default=0) or 1.0


def position(config: Any, task: Any, chosen: Sequence[int], node: int, scale: float) -> list[float]:
    """Where a node lies as seen from the current one."""
    dx, dy = task.coords[node] - task.coords[chosen[-1]]
    if config.coordinates == "euclidean":
        return [dx / scale, dy / scale]
    return [math.hypot(dx, dy) / scale, math.atan2(dy, dx)]


def positional_encoding(rank: int, width: int) -> Vector:
    half = width // 2
    angles = [rank / 10_000 ** (i / (half - 1)) for i in range(half)]
    return np.array([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])


def tokens(weights: Weights, config: Any, task: Any, chosen: Sequence[int]) -> dict[int, Vector]:
    """h_i of the valid depot and of the neighbours, by node. The depot has rank 0, and the neighbours follow."""
    near = neighbourhood(task, chosen, config.neighbours)
    out = {}
    if task.demand is not None and 0 in valid_nodes(task, chosen):
        out[0] = weights["local.depot"]
    for node, _ in near:
        x = position(config, task, chosen, node, radius(near))
        if task.demand is not None:
            x.append(task.demand[node] / max(load_left(task, chosen), 1))
        out[node] = linear(weights, "local.embed", np.array(x))
    if config.positional:
        ranks = {node: i + (task.demand is not None) for i, (node, _) in enumerate(near)}
        out = {node: h + positional_encoding(ranks.get(node, 0), config.local_width) for node, h in out.items()}
    return out


def local_layer(weights: Weights, name: str, rows: Sequence[Vector], heads: int) -> list[Vector]:
    """As in the encoder, but with layer normalisation."""
    rows = [layer_norm(weights, f"{name}.norm1", row) for row in self_attention(weights, name, rows, heads)]
    return [layer_norm(weights, f"{name}.norm2", feed_forward(weights, name, row)) for row in rows]


def layer_norm(weights: Weights, name: str, x: Vector) -> Vector:
    centred = (x - x.mean()) / math.sqrt(x.var() + 1e-5)
    return centred * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def local_scores(weights: Weights, config: Any, task: Any, chosen: Sequence[int]) -> dict[int, float]:
    """u_local of the valid depot and of the neighbours; other nodes have none."""
    seen = tokens(weights, config, task, chosen)
    rows = list(seen.values())
    for i in range(config.local_layers):
        rows = local_layer(weights, f"local.layers.{i}", rows, config.local_heads)
    keys = [linear(weights, "local.key", h) for h in rows]
    values = [linear(weights, "local.value", h) for h in rows]
    query = linear(weights, "local.query", weights["local.context"])
    mixed = linear(weights, "local.combine", attend(query, keys, values, config.local_heads))
    return {node: float(mixed @ h) / math.sqrt(config.local_width) for node, h in zip(seen, rows, strict=True)}


# --- the ensemble


def penalties(config: Any, task: Any, chosen: Sequence[int]) -> dict[int, float]:
    """The normalised distance penalty of each valid node."""
    near = neighbourhood(task, chosen, config.neighbours)
    scale = radius(near)
    inside = {node: min(rho / scale, config.xi) for node, rho in near}
    out = {node: inside.get(node, config.xi) for node in valid_nodes(task, chosen)}
    if task.demand is not None and 0 in out:
        out[0] = 0.0
    return out


def scores(weights: Weights, config: Any, task: Any, chosen: Sequence[int], rows: Sequence[Vector]) -> dict[int, float]:
    """u~_global + u_local of each valid node."""
    out = dict.fromkeys(valid_nodes(task, chosen), 0.0)
    parts = []
    if config.global_policy:
        parts.append(global_scores(weights, config, task, chosen, rows))
    if config.penalty:
        parts.append({node: -penalty for node, penalty in penalties(config, task, chosen).items()})
    if config.local_policy:
        parts.append(local_scores(weights, config, task, chosen))
    for part in parts:
        for node, score in part.items():
            if node in out:
                out[node] += score
    return out


def logits(weights: Weights, config: Any, task: Any, walks: Sequence[Sequence[int]]) -> list[Vector]:
    """C tanh(u) of all nodes after each of the walks, -inf where a node may not come next."""
    rows = encode(weights, config, task) if config.global_policy else []
    out = []
    for chosen in walks:
        row = np.full(len(task.coords), -np.inf)
        for node, score in scores(weights, config, task, chosen, rows).items():
            row[node] = config.clip * math.tanh(score)
        out.append(row)
    return out
