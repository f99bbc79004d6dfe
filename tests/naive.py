"""Naive twins: the method's formulas as loops over nodes and heads, in float64, one task and one partial solution at a
time. Written from the formulas and not from the package, of which only the names of parameters and options
are used, and what is kin (elgo.kin has tests of its own).

A partial solution is the list of nodes chosen so far. A CVRP has the depot as node 0, which ends a route.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from elgo.kin import find_kin

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


def attend(
    query: Vector, keys: Sequence[Vector], values: Sequence[Vector], heads: int, away: Sequence[float] | None = None
) -> Vector:
    """Multi-head attention of one query: the concatenated heads.

    With `away`, how far each key is, heads are biased against distance: 2, 1, 1/2, ... times that from head 2 on.
    """
    f = len(query) // heads
    out = []
    for h in range(heads):
        part = slice(h * f, (h + 1) * f)
        scores = [float(query[part] @ key[part]) / math.sqrt(f) for key in keys]
        if away is not None and h >= 2:
            scores = [score - 2.0 ** (3 - h) * distance for score, distance in zip(scores, away, strict=True)]
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
    away: Sequence[Sequence[float]] | None = None,
    sharp: float = 1.0,
) -> list[Vector]:
    """Attention of each row to all rows, without bias on q, k and v, added to the row."""
    width = len(rows[0])
    q, k, v = ([matrix @ row for row in rows] for matrix in weights[f"{name}.qkv.weight"].reshape(3, width, width))
    mixed = [attend(sharp * query, k, v, heads, away[i] if away else None) for i, query in enumerate(q)]
    return [row + linear(weights, f"{name}.combine", m) for row, m in zip(rows, mixed, strict=True)]


def feed_forward(weights: Weights, name: str, row: Vector) -> Vector:
    """Two layers with ReLU between, added to the row."""
    return row + linear(weights, f"{name}.down", np.maximum(linear(weights, f"{name}.up", row), 0))


def encoder_layer(
    weights: Weights,
    name: str,
    rows: Sequence[Vector],
    heads: int,
    away: Sequence[Sequence[float]] | None = None,
    sharp: float = 1.0,
) -> list[Vector]:
    rows = self_attention(weights, name, rows, heads, away, sharp)
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
    away = None
    if config.distance_bias:  # in units of the mean spacing of the nodes
        away = [[math.dist(a, b) * math.sqrt(len(task.coords)) for b in task.coords] for a in task.coords]
    for i in range(config.layers):
        rows = encoder_layer(weights, f"global_.layers.{i}", rows, config.heads, away, sharpness(config, task))
    return rows


def sharpness(config: Any, task: Any) -> float:
    """What multiplies the scores of attention in the global policy."""
    return math.log(len(task.coords)) / math.log(100) if config.log_temperature else 1.0


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
    query = query * sharpness(config, task)
    glimpse = linear(weights, "global_.combine", attend(query, keys, values, config.heads))
    if config.decoder_block:
        glimpse = glimpse + linear(weights, "global_.block.here", rows[chosen[-1]] / math.sqrt(config.width))
        if task.demand is not None:
            share = np.array([load_left(task, chosen) / task.capacity])
            glimpse = glimpse + linear(weights, "global_.block.load", share)
        glimpse = feed_forward(weights, "global_.block", glimpse)
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


# --- the window policy


def shown(config: Any, task: Any, chosen: Sequence[int]) -> tuple[list[tuple[int, float]], float]:
    """The neighbourhood and its radius; then the last neighbours give way to two of strong kin that are not in it."""
    near = neighbourhood(task, chosen, config.neighbours)
    scale = radius(near)
    if config.kin and task.demand is None:
        kin, inside = find_kin(task).dense()[chosen[-1]], [node for node, _ in near]
        hidden = [i for i in valid_nodes(task, chosen) if kin[i] > 0.5 and i not in inside]
        slots = [slot for slot in range(len(near) - 1, -1, -1) if kin[inside[slot]] <= 0.5]
        for slot, node in zip(slots, hidden[:2], strict=False):
            near[slot] = (node, math.dist(task.coords[chosen[-1]], task.coords[node]))
    return near, scale


def kin_now(task: Any, chosen: Sequence[int]) -> Any:
    """Kin with what is left of the plans."""
    always, plans = find_kin(task).dense().astype(float), find_kin(task).plans
    visited, here, share = set(chosen) - {0}, chosen[-1], np.zeros_like(always)
    for plan, much in enumerate(plans.share.tolist()):
        route = plans.node[plans.begin[plan] : plans.begin[plan + 1]].tolist()
        if not visited & set(route):
            for a, b in pairwise([0, *route, 0]):
                share[a, b] += much
                share[b, a] += much
        for way in [route, route[::-1]] if here in route else []:
            before, after = set(way[: way.index(here)]), way[way.index(here) + 1 :]
            if before <= visited and not visited & set(after):
                share[here, [*after, 0][0]] += much
                break
    if len(find_kin(task).pairs):
        for a, b in rest(task, chosen):
            share[a, b] = share[b, a] = max(share[a, b], share[b, a], 0.3)
    return np.where(share > 0.05, 0.5 + 0.5 * np.minimum(share, 1), always)


def rest(task: Any, chosen: Sequence[int]) -> set[tuple[int, int]]:
    """Edges of the routes that savings make of those who are not visited, and of the one that is being driven."""
    here, used = chosen[-1], task.capacity - load_left(task, chosen)
    routes = [[i] for i in range(1, len(task.coords)) if i not in chosen] + [[0, here]] * (here != 0)
    for a, b in find_kin(task).pairs.tolist():
        at = [[route for route in routes if i in (route[0], route[-1])] for i in (a, b)]
        if not (at[0] and at[1]) or at[0][0] is at[1][0]:
            continue
        (first,), (second,) = at
        load = sum(task.demand[i] for i in first + second if i != here)
        if load + (used if here and here in first + second else 0) > task.capacity:
            continue
        first = first if first[-1] == a else first[::-1]
        second = second if second[0] == b else second[::-1]
        routes = [route for route in routes if route is not at[0][0] and route is not at[1][0]] + [first + second]
    walks = [route[::-1] if route[-1] == 0 else route for route in routes]  # the one that is being driven begins with 0
    walks = [[*route[1:], 0] if route[0] == 0 else [0, *route, 0] for route in walks]
    return {edge for walk in walks for edge in pairwise(walk)}


def strands(kin: Any, chosen: Sequence[int], node: int) -> list[float]:
    """What a TSP's move would leave behind, and where the tour would get stuck; see elgo.strands."""
    left = set(range(len(kin))) - set(chosen)
    home = joined(kin, chosen[0], left)
    islands = left - home if node in home else left - home - joined(kin, node, left)
    behind = islands | (home - joined(kin, chosen[0], left - {node}) - {node} if node in home else set())
    dead = dead_ends(kin, chosen[0], left)
    later = dead_ends(kin, chosen[0], left - {node})
    goes_on = any(kin[node, j] > 0.5 for end in later for j in end)
    after = math.log(1 + len(later) - goes_on) if kin[chosen[-1], node] > 0.5 else 0.0
    return [math.log(1 + len(behind)), float(node not in home), float(any(node in end for end in dead)), after]


def dead_ends(kin: Any, first: int, left: set[int]) -> list[set[int]]:
    """Parts of the nodes to go that hang on the others by one node, and have none that would part them; islands."""
    home = joined(kin, first, left)
    cuts = {i for i in home - {first} if joined(kin, first, left - {i}) | {i} != home}
    parts = [part for i in {first, *cuts} for part in components(kin, home - {i}) if first not in part]
    return [part for part in parts if not part & cuts] + components(kin, left - home)


def components(kin: Any, nodes: set[int]) -> list[set[int]]:
    """Parts that strong kin joins."""
    parts: list[set[int]] = []
    while rest := nodes - set().union(*parts):
        parts.append(joined(kin, min(rest), nodes))
    return parts


def joined(kin: Any, begin: int, nodes: set[int]) -> set[int]:
    """Who of the nodes can be reached from one of them, or from another one, along strong kin."""
    found = {begin}
    while more := {j for i in found for j in nodes - found if kin[i, j] > 0.5}:
        found |= more
    return found


def window_scores(weights: Weights, config: Any, task: Any, chosen: Sequence[int]) -> dict[int, float]:
    """u_local of the valid depot and of the neighbours by the transformer over the window."""
    near, scale = shown(config, task, chosen)
    cvrp, kin, always = task.demand is not None, kin_now(task, chosen), find_kin(task).dense().astype(float)
    here, end = task.coords[chosen[-1]], task.coords[0 if cvrp else chosen[0]]
    far = math.dist(here, end)
    ahead = end - here if far > 0 else (task.coords[near[0][0]] - here if near else np.zeros(2))
    angle = math.atan2(ahead[1], ahead[0])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    places = [np.array([min(far / scale, 2.0), 0.0])]
    anchor = [min(far / scale, 2.0), math.log(1 + far / scale)]
    load = max(load_left(task, chosen), 1) if cvrp else 1
    if cvrp:
        anchor.append(load_left(task, chosen) / task.capacity)
    tokens = [0 if cvrp else chosen[0], *(node for node, _ in near)]
    left = [node for node in range(len(task.coords)) if node not in chosen or (cvrp and node == 0)]
    if config.kin and not cvrp:
        anchor.append(math.log(1 + len(dead_ends(always, chosen[0], set(left)))))
    if config.kin:
        anchor += [kin[chosen[-1], tokens[0]], 0.0 if cvrp else always[tokens[0], left].sum()]
    rows = [linear(weights, "local.embed_anchor", np.array(anchor))]
    for rank, (node, rho) in enumerate(near):
        unit = max(scale, rho / 2)  # nothing is drawn further away than twice the radius
        places.append(turn @ (task.coords[node] - here) / unit)
        x = [*places[-1], rho / unit, (far - math.dist(task.coords[node], end)) / unit]
        if cvrp:
            x += [task.demand[node] / load, task.demand[node] / task.capacity]
        if config.kin and not cvrp:
            x += strands(always, chosen, node)
        if config.kin:
            x += [kin[chosen[-1], node], kin[tokens[0], node], always[node, left].sum()]
        encoding = positional_encoding(rank, config.local_width)
        rows.append(linear(weights, "local.embed", np.array(x)) + encoding)
    for i in range(config.local_layers):
        rows = window_layer(weights, f"local.layers.{i}", rows, places, kin[np.ix_(tokens, tokens)], config)
    found = [float(linear(weights, "local.readout", row)[0]) / config.clip for row in rows]
    out = {node: score for (node, _), score in zip(near, found[1:], strict=True)}
    return out | ({0: found[0]} if cvrp and 0 in valid_nodes(task, chosen) else {})


def window_layer(
    weights: Weights, name: str, rows: Sequence[Vector], places: Sequence[Vector], kin: Any, config: Any
) -> list[Vector]:
    """Attention, per head less for distance and more for kin, and a feed-forward block; both scaled, then added."""
    query, key, value = zip(*[np.split(linear(weights, f"{name}.qkv", row), 3) for row in rows], strict=True)
    d = config.local_width // config.local_heads
    out = []
    for i, row in enumerate(rows):
        heads = []
        for h in range(config.local_heads):
            part = slice(h * d, (h + 1) * d)
            apart = [math.dist(places[i], place) * math.sqrt(config.neighbours) for place in places]
            score = [
                query[i][part] @ key[j][part] / math.sqrt(d) - weights[f"{name}.slope"][h] * apart[j]
                for j in range(len(rows))
            ]
            if config.kin:
                score = list(score + weights[f"{name}.kin"][h] * kin[i])
            weight = np.exp(np.array(score) - max(score))
            heads.append(sum(w * value[j][part] for j, w in enumerate(weight / weight.sum())))
        mixed = row + weights[f"{name}.scale1"] * linear(weights, f"{name}.combine", np.concatenate(heads))
        hidden = np.maximum(linear(weights, f"{name}.up", mixed), 0)
        out.append(mixed + weights[f"{name}.scale2"] * linear(weights, f"{name}.down", hidden))
    return out


# --- the ensemble


def penalties(config: Any, task: Any, chosen: Sequence[int]) -> dict[int, float]:
    """The normalised distance penalty of each valid node."""
    near, scale = shown(config, task, chosen)
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
        see = window_scores if config.local == "window" else local_scores
        parts.append(see(weights, config, task, chosen))
        if config.local == "window" and not config.global_policy:  # nothing outside of it can be chosen
            out = {node: score for node, score in out.items() if node in parts[-1]}
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
