"""The global policy's decoder as compiled kernels: u_global of a block of rollouts from tables made once per task.

The weights of the glimpse split into factors that do not change: exp(q.k) = exp(q_last.k) * exp(q_first.k) in TSP and
exp(q_last.k) * exp(load * q_load.k) in CVRP. The first is an N x N table per head, so a step only multiplies rows.
Each rollout looks at its open nodes alone. Sums over them are tiles, see `elgo.decode.tiles`: a head of width d takes
one or more of a tile's parts, and all heads take G tiles. N nodes padded to P, H heads.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.decode.arithmetic import FAST, UNDERFLOW, Floats, Integers, exponentials
from elgo.decode.tiles import LANES, PARTS, ROOM, WIDTH, add_weighted, dot4, load_tile, mean, store_tile
from elgo.decode.vectors import exp, load, splat, store

CHUNK = 64  # nodes whose rows of a table stay in the first-level cache while all rollouts look at them


class GlobalTables(NamedTuple):
    """One task's share of the global policy."""

    last: Floats  # (N, G, P, 8) exp(q_last.k - row maximum), or (0, 0, 0, 0) when it does not fit into memory
    query_first: Floats  # (N, H, d) TSP; (0, H, d) in CVRP
    query_last: Floats  # (N, H, d), scaled by 1 / sqrt(d)
    query_load: Floats  # (H, d) CVRP: what a full load adds to the query; zeros in TSP
    keys: Floats  # (H, d, P)
    values: Floats  # (G, P, 128)
    slope: Floats  # (G, P, 8) query_load . keys - row maximum
    readout: Floats  # (G, P, 128) combine and node embeddings folded: glimpse . readout + offset = u_global
    offset: Floats  # (P,)
    head: Integers  # (8 G,) the head of each part; parts that are left over repeat the last


class NodeLists(NamedTuple):
    """Some nodes of each of R rollouts, in ascending order."""

    node: NDArray[np.int32]  # (R, P)
    edges: Integers  # (R, C + 1) where the nodes of each chunk begin; the last is their number


class GlimpseContext(NamedTuple):
    """What the glimpse depends on in R rollouts."""

    first: Integers  # (R,) first node
    current: Integers  # (R,)
    load: Floats  # (R,) what is left in the vehicle as a share of its capacity
    is_open: Floats  # (R, P) 1 for nodes that may come next, 0 for others
    open_nodes: NodeLists
    first_factor: Floats  # (R, G, P, 8) TSP with a table: exp(q_first.k); else (0, G, P, 8)


class GlimpseWork(NamedTuple):
    """Scratch memory."""

    weights: Floats  # (8 P,)
    row: Floats  # (1, P)


def part_heads(heads: int, d: int) -> Integers:
    """Return the head of each part of all tiles; parts that are left over repeat the last head."""
    per_head = -(-d // LANES)
    parts = heads * per_head
    return np.minimum(np.arange(parts + -parts % PARTS) // per_head, heads - 1)


@njit(nogil=True)
def new_lists(rollouts: int, nodes: int) -> NodeLists:
    """Return lists of all nodes."""
    chunks = -(-nodes // CHUNK)
    lists = NodeLists(np.empty((rollouts, nodes), np.int32), np.empty((rollouts, chunks + 1), np.int64))
    for r in range(rollouts):
        for n in range(nodes):
            lists.node[r, n] = n
        for chunk in range(chunks + 1):
            lists.edges[r, chunk] = min(chunk * CHUNK, nodes)
    return lists


@njit
def remove_node(node: NDArray[np.int32], edges: Integers, r: int, removed: int) -> None:
    """Take a node out of the list of a rollout."""
    chunk, chunks = removed // CHUNK, edges.shape[1] - 1
    k = edges[r, chunk]
    while node[r, k] != removed:
        k += 1
    for i in range(k, edges[r, chunks] - 1):
        node[r, i] = node[r, i + 1]
    for i in range(chunk + 1, chunks + 1):
        edges[r, i] -= 1


@njit
def list_open(unvisited: NodeLists, is_open: Floats, out: NodeLists) -> None:
    """Write those of the unvisited nodes that are open."""
    (node, edges), (open_node, open_edges) = unvisited, out
    for r in range(node.shape[0]):
        count = 0
        for chunk in range(edges.shape[1] - 1):
            for k in range(edges[r, chunk], edges[r, chunk + 1]):
                n = node[r, k]
                open_node[r, count] = n  # without a branch on is_open, which no processor can predict
                count += int(is_open[r, n])
            open_edges[r, chunk + 1] = count


@njit(nogil=True, fastmath=FAST)
def first_factor(tables: GlobalTables, starts: Integers, is_open: Floats, out: Floats) -> None:
    """Write exp(q_first.k - row maximum) of each start into out (R, G, P, 8)."""
    row = np.empty((1, out.shape[2]), np.float32)
    for r in range(out.shape[0]):
        for h in range(tables.keys.shape[0]):
            np.dot(tables.query_first[starts[r], h : h + 1], tables.keys[h], row)
            exponentials(row, 0, is_open, r)
            for part in range(tables.head.shape[0]):
                if tables.head[part] == h:
                    for n in range(out.shape[2]):
                        out[r, part // PARTS, n, part % PARTS] = row[0, n]


# Kernels that run once per rollout take whole arrays: views and fields of tuples would be counted atomically.


@njit(fastmath=FAST)
def _add_scaled(row: Floats, factor: np.float32, keys: Floats, h: int, j: int) -> None:
    """row[0] += factor * keys[h, j]."""
    for n in range(row.shape[1]):
        row[0, n] += factor * keys[h, j, n]


@njit(nogil=True, fastmath=FAST)
def _weigh_from_scores(tables: GlobalTables, context: GlimpseContext, group: int, r: int, work: GlimpseWork) -> None:
    """Write the weights of all open nodes straight from query and keys, when tables underflow or are missing."""
    first, current, load, row = context.first[r], context.current[r], context.load[r], work.row
    for part in range(PARTS):
        h = tables.head[group * PARTS + part]
        row[:] = np.float32(0.0)
        for j in range(tables.query_load.shape[1]):
            query = tables.query_last[current, h, j] + load * tables.query_load[h, j]
            if tables.query_first.shape[0] > 0:
                query += tables.query_first[first, h, j]
            _add_scaled(row, query, tables.keys, h, j)
        exponentials(row, 0, context.is_open, r)
        for k in range(context.open_nodes.edges[r, -1]):
            work.weights[PARTS * k + part] = row[0, context.open_nodes.node[r, k]]


@njit(nogil=True, fastmath=FAST)
def _weighted_sums(tables: GlobalTables, context: GlimpseContext, group: int, work: GlimpseWork, out: Floats) -> None:
    """Write the sums of weighted values and of weights of a group of 8 parts into out (R, G, 144)."""
    last, values, slope, weights = tables.last, tables.values[group], tables.slope[group], work.weights
    _, current, load_share, _, (nodes, edges), factor = context
    groups, padded = tables.values.shape[:2]
    for chunk in range(edges.shape[1] - 1):
        for r in range(current.shape[0]):
            begin, end = edges[r, chunk], edges[r, chunk + 1]
            at = (current[r] * groups + group) * padded
            if factor.shape[0] > 0:
                of_first = (r * groups + group) * padded
                for k in range(begin, end):
                    n = nodes[r, k]
                    both = load(last, PARTS * (at + n)) * load(factor, PARTS * (of_first + n))
                    store(weights, PARTS * (k - begin), both)
            else:
                share = splat(load_share[r])
                for k in range(begin, end):
                    n = nodes[r, k]
                    both = load(last, PARTS * (at + n)) * exp(share * load(slope, PARTS * n))
                    store(weights, PARTS * (k - begin), both)
            place = ROOM * (r * groups + group)
            tile = load_tile(out, place)
            for k in range(begin, end):
                tile = add_weighted(tile, weights, PARTS * (k - begin), values, WIDTH * nodes[r, k])
            store_tile(out, place, tile)


@njit(nogil=True, fastmath=FAST)
def _sums_from_scores(
    tables: GlobalTables, context: GlimpseContext, group: int, r: int, work: GlimpseWork, out: Floats
) -> None:
    """The same for one rollout, when tables underflow or are missing."""
    _weigh_from_scores(tables, context, group, r, work)
    out[r, group, :] = np.float32(0.0)
    place, begin = ROOM * (r * out.shape[1] + group), group * tables.values.shape[1]
    tile = load_tile(out, place)
    for k in range(context.open_nodes.edges[r, -1]):
        tile = add_weighted(
            tile, work.weights, PARTS * k, tables.values, WIDTH * (begin + context.open_nodes.node[r, k])
        )
    store_tile(out, place, tile)


@njit
def _underflows(sums: Floats, r: int, group: int) -> bool:
    """Return whether weights of a head are so small that their sum is inexact."""
    small = False
    for part in range(WIDTH, WIDTH + PARTS):
        small |= sums[r, group, part] < UNDERFLOW
    return small


@njit(nogil=True, fastmath=FAST)
def glimpse(tables: GlobalTables, context: GlimpseContext, work: GlimpseWork, out: Floats) -> None:
    """Write the glimpse of R rollouts into out (R, G, 144): sums of weighted values, and of their weights."""
    out[:] = np.float32(0.0)
    for group in range(out.shape[1]):
        if tables.last.shape[0] > 0:
            _weighted_sums(tables, context, group, work, out)
        for r in range(out.shape[0]):
            if _underflows(out, r, group):
                _sums_from_scores(tables, context, group, r, work, out)


@njit(nogil=True, fastmath=FAST)
def add_scores(tables: GlobalTables, context: GlimpseContext, glimpses: Floats, scores: Floats) -> None:
    """Add the product of the glimpse (R, G, 144) with the readout of each open node to its score (R, P)."""
    nodes, edges = context.open_nodes
    for group in range(glimpses.shape[1]):
        readout = tables.readout[group]
        for chunk in range(edges.shape[1] - 1):
            for r in range(scores.shape[0]):
                tile = mean(load_tile(glimpses, ROOM * (r * glimpses.shape[1] + group)))
                begin, end = edges[r, chunk], edges[r, chunk + 1]
                for k in range(begin, end, 4):
                    # The last of the span stands in for those that are missing: its sum is written again.
                    a, b = nodes[r, k], nodes[r, min(k + 1, end - 1)]
                    c, d = nodes[r, min(k + 2, end - 1)], nodes[r, min(k + 3, end - 1)]
                    u, v, w, x = dot4(tile, readout, WIDTH * a, WIDTH * b, WIDTH * c, WIDTH * d)
                    u, v, w, x = u + scores[r, a], v + scores[r, b], w + scores[r, c], x + scores[r, d]
                    scores[r, a], scores[r, b], scores[r, c], scores[r, d] = u, v, w, x
