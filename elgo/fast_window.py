"""The CPU fast path of a window policy alone: kernels keep the rollouts, draw their windows and score them.

The plain path spends a step on all N nodes of each rollout; here a step walks presorted neighbour lists to the K
nearest valid nodes, and all that is left is the network itself (elgo.fast_window_network): products over a block of
rollouts. Only windows with a choice are scored, and of those that look the same only the first: rollouts of a CVRP
often meet again with the same load in surroundings that are served alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elgo.decode.compiled import Floats, Plane, mask_by_load, nearest_open
from elgo.fast_window_network import Network, make_room, score
from elgo.kin import MOST_NODES, STRONG, Kin, join_kin
from elgo.model.env import Task
from elgo.plans import LEAST_SHARE, read_plans, show_ends
from elgo.rest import Rest, join_rest, make_rest, read_rest
from elgo.strands import FEATURES, Space, make_space, read_strands
from elgo.window import FAR

Ints = NDArray[np.int64]

SCORED = 64  # most windows that the network scores at once
REMEMBERED = 1 << 17  # most windows whose scores are kept; when there are more, all are forgotten
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: multiplying by it scatters
HALF = np.uint64(32)  # of a key's bits


class Board(NamedTuple):
    """Tasks of one size N, one behind the other: the rows of task i begin at i * N. The depot is in no list."""

    coords: NDArray[np.float64]  # (tasks * N, 2)
    order: NDArray[np.uint32]  # (tasks * N, W) the nodes of the task by distance
    rho: Floats  # (tasks * N, W)
    demand: Ints  # (tasks * N,), or (0,) in TSP
    capacity: Ints  # (tasks,)
    size: int  # N
    kin: Kin  # of all tasks, with nodes counted within their own; empty if the network does not look at it


class Rollouts(NamedTuple):
    """R rollouts of any of the tasks, changed in place."""

    task: Ints  # (R,)
    first: Ints  # (R,)
    current: Ints  # (R,)
    left: Ints  # (R,) customers to go
    units: Ints  # (R,) left in the vehicle
    need: Ints  # (R, N) demand of who is not served yet, more than the capacity for others; (0, N) in TSP
    is_open: Floats  # (R, N) 1 where a node may come next


class Sight(NamedTuple):
    """What the rollouts see: the arrays of a Window (elgo.window), and the nodes behind its tokens."""

    anchor: Floats  # (R, A)
    nodes: Floats  # (R, K, F)
    kin: Floats  # (R, 1 + K, 1 + K); (0, 1 + K, 1 + K) without
    seen: Ints  # (R, K)
    rho: Floats  # (R, K + 1)
    found: Ints  # (R,) how many nodes


class Memory(NamedTuple):
    """The scores of all windows so far; in TSP, where none is ever seen again, of each rollout's last one."""

    scores: Floats  # (S, 1 + K)
    slot: Ints  # (R,) where the scores of each rollout's window are; -1 if there is nothing to choose
    key: NDArray[np.uint64]  # (H,) of the windows, 0 where there is none
    place: Ints  # (H,) where the scores of each are
    used: Ints  # (1,) how many there are


def make_board(tasks: Sequence[Task], planes: Sequence[Plane], kin: Sequence[Kin]) -> Board:
    """kin: of each task, or nothing."""
    return Board(
        np.concatenate([plane.coords for plane in planes]),
        np.concatenate([plane.order for plane in planes]),
        np.concatenate([plane.rho for plane in planes]),
        np.concatenate([np.zeros(0, np.int64) if task.demand is None else task.demand for task in tasks]),
        np.array([task.capacity or 0 for task in tasks]),
        len(tasks[0].coords),
        join_kin(kin),
    )


def run_block(
    network: Network,
    board: Board,
    task: Ints,
    begun: Ints,
    uniforms: Floats,
    actions: NDArray[np.int32],
    certainty: Floats,
    control: Ints,
) -> None:
    """Complete rollouts (R, P) of the tasks, writing actions and certainty (R, T). See elgo.decode.compiled.run_block."""
    starts = begun[:, 0]
    rollouts, n, depot = len(starts), board.size, len(board.demand) > 0
    k = min(len(network.rank), n - depot)
    need = board.demand.reshape(-1, n)[task] if depot else np.zeros((0, n), np.int64)
    need[:, :1] = board.capacity[task, None] + 1 if depot else 0  # the depot is no neighbour
    state = Rollouts(
        task, starts.astype(np.int64), starts.astype(np.int64), np.full(rollouts, n - depot), board.capacity[task],
        need, np.ones((rollouts, n), np.float32),
    )  # fmt: skip
    sight = Sight(
        np.zeros((rollouts, len(network.anchor)), np.float32),
        np.zeros((rollouts, k, len(network.nodes)), np.float32),
        np.zeros((rollouts if network.sees_kin else 0, 1 + k, 1 + k), np.float32),
        np.zeros((rollouts, k), np.int64), np.zeros((rollouts, k + 1), np.float32), np.zeros(rollouts, np.int64),
    )  # fmt: skip
    room, scratch = make_room(network, min(SCORED, rollouts)), make_scratch(n, 1 + k)
    memory = _make_memory(min(actions.size, REMEMBERED) if depot else rollouts, rollouts, k)
    _begin(board, state, begun)
    actions[:, : begun.shape[1]] = begun
    for step in range(begun.shape[1], actions.shape[1]):
        if not look(board, state, sight, scratch) or control[1] != 0:
            return
        new = recall(board, state, sight, memory)
        for i in range(0, len(new), SCORED):
            score(network, sight, new[i : i + SCORED], room, memory.scores, memory.slot)
        move(board, state, sight, memory, network.clip, uniforms, actions, certainty, step)
        control[0] = step + 1


def _make_memory(windows: int, rollouts: int, k: int) -> Memory:
    """For so many windows at most, and as many rollouts at least."""
    windows = max(windows, rollouts)
    size = 1 << (2 * windows).bit_length()
    scores, slot = np.zeros((windows, 1 + k), np.float32), np.zeros(rollouts, np.int64)
    return Memory(scores, slot, np.zeros(size, np.uint64), np.zeros(size, np.int64), np.zeros(1, np.int64))


@njit(nogil=True, cache=True)
def recall(board, state, sight, memory):  # type: ignore[no-untyped-def]
    """Find each rollout's window among those so far; the rows of the new ones."""
    depot = board.demand.shape[0] > 0
    new, count = np.empty(len(state.current), np.int64), 0
    if memory.used[0] + len(new) > len(memory.scores):
        memory.key[:] = 0
        memory.used[0] = 0
    for r in range(len(state.current)):
        if sight.found[r] + _may_return(state, r, depot) < 2:
            memory.slot[r] = -1
            continue
        if not depot:
            memory.slot[r] = new[count] = r
            count += 1
            continue
        key = _key(sight, r)
        at = np.int64(key % np.uint64(len(memory.key)))
        while memory.key[at] != 0 and memory.key[at] != key:
            at = (at + 1) % len(memory.key)
        if memory.key[at] == 0:
            memory.key[at], memory.place[at] = key, memory.used[0]
            memory.used[0] += 1
            new[count] = r
            count += 1
        memory.slot[r] = memory.place[at]
    return new[:count]


@njit(nogil=True)
def _key(sight, r):  # type: ignore[no-untyped-def]
    """What a window looks like, in 64 bits, not 0: of a million, the odds that two agree by chance are 1 : 10^7."""
    anchor, nodes, kin = sight.anchor.view(np.uint32), sight.nodes.view(np.uint32), sight.kin.view(np.uint32)
    tokens = 1 + sight.found[r]
    key = np.uint64(tokens) * ODD
    for f in range(anchor.shape[1]):
        key = _stir(key, anchor[r, f])
    for t in range(tokens - 1):
        for f in range(nodes.shape[2]):
            key = _stir(key, nodes[r, t, f])
    for t in range(tokens if kin.shape[0] > 0 else 0):
        for u in range(tokens):
            key = _stir(key, kin[r, t, u])
    return max(key, np.uint64(1))


@njit(nogil=True, inline="always")
def _stir(key, bits):  # type: ignore[no-untyped-def]
    key = (key ^ np.uint64(bits)) * ODD
    return key ^ (key >> HALF)


@njit(nogil=True, inline="always")
def _may_return(state, r, depot):  # type: ignore[no-untyped-def]
    """Whether the depot may come next."""
    return depot and (state.current[r] != 0 or state.left[r] == 0)


@njit(nogil=True, cache=True)
def _begin(board, state, begun):  # type: ignore[no-untyped-def]
    """All rollouts go where they have been (R, P)."""
    for r in range(begun.shape[0]):
        for t in range(begun.shape[1]):
            _go(board, state, r, begun[r, t])


@njit(nogil=True)
def _go(board, state, r, node):  # type: ignore[no-untyped-def]
    """Rollout r moves to a node."""
    state.current[r] = node
    if board.demand.shape[0] > 0:
        capacity = board.capacity[state.task[r]]
        if node == 0:
            state.units[r] = capacity
            return
        state.units[r] -= board.demand[state.task[r] * board.size + node]
        state.need[r, node] = capacity + 1
    state.left[r] -= 1
    state.is_open[r, node] = np.float32(0.0)


@njit(nogil=True, cache=True)
def look(board, state, sight, scratch):  # type: ignore[no-untyped-def]
    """Draw the windows of all rollouts; False when they are all finished. Without a choice, kin is left out."""
    depot, sees_kin = board.demand.shape[0] > 0, sight.kin.shape[0] > 0
    busy = False
    for r in range(state.current.shape[0]):
        if depot:
            opened = mask_by_load(state.need, state.units[r], state.is_open, r)
            busy = busy or state.current[r] != 0 or state.left[r] > 0
        else:
            opened = state.left[r]
            busy = busy or opened > 0
        found = nearest_open(
            board.coords, board.order, board.rho, state.task[r] * board.size, depot, r, state.current[r],
            state.is_open, opened, sight.seen, sight.rho,
        )  # fmt: skip
        sight.found[r] = found
        radius = float(sight.rho[r, found - 1]) if found > 0 and sight.rho[r, found - 1] > 0 else 1.0
        if sees_kin and depot:
            scratch.served[1:] = state.need[r, 1:] > board.capacity[state.task[r]]
            if state.current[r] == 0 and found < opened:
                row = state.task[r] * board.size
                show_ends(board.kin.plans, row, board.coords, scratch.served, sight.seen[r], sight.rho[r], found)
        elif sees_kin:
            scratch.served[:] = state.is_open[r] == 0
            _show_kin(board, state, r, found, sight)
        _draw(board, state, r, found, radius, sight)
        if sees_kin and found + _may_return(state, r, depot) > 1:
            _draw_kin(board, state, r, found, sight, scratch)
            if depot:
                _draw_plans(board, state, r, found, sight, scratch)
            elif board.size <= MOST_NODES:
                _draw_strands(board, state, r, found, sight, scratch)
    return busy


class Scratch(NamedTuple):
    """What is known of one rollout at a time."""

    served: NDArray[np.bool_]  # (N,) who is visited; the depot never
    token: Ints  # (N,) at which token of the window a node is; -1 everywhere before and after
    among: Floats  # (1 + K, 1 + K) shares of plans
    to_here: Floats  # (1 + K,)
    space: Space  # of elgo.strands
    rest: Rest  # of elgo.rest


@njit(nogil=True, cache=True)
def make_scratch(n, tokens):  # type: ignore[no-untyped-def]
    among, to_here = np.zeros((tokens, tokens), np.float32), np.zeros(tokens, np.float32)
    return Scratch(np.zeros(n, np.bool_), np.full(n, -1), among, to_here, make_space(n), make_rest(n))


@njit(nogil=True)
def _show_kin(board, state, r, found, sight):  # type: ignore[no-untyped-def]
    """Strong kin of the current node into the last slots of a window that hides it: see show_kin."""
    kin, base = board.kin, state.task[r] * board.size
    here = base + state.current[r]
    first = second = board.size  # the hidden ones, the lower index first
    for e in range(kin.begin[here], kin.begin[here + 1]):
        node = kin.node[e]
        if kin.value[e] <= STRONG or state.is_open[r, node] == 0 or node > second:
            continue
        hidden = True
        for t in range(found):
            hidden = hidden and sight.seen[r, t] != node
        if hidden:
            first, second = (node, first) if node < first else (first, node)
    slot = found
    for node in (first, second):
        slot -= 1
        while node < board.size and slot >= 0 and _is_strong(kin, here, sight.seen[r, slot]):
            slot -= 1
        if node < board.size and slot >= 0:
            dx = board.coords[base + node, 0] - board.coords[here, 0]
            dy = board.coords[base + node, 1] - board.coords[here, 1]
            sight.seen[r, slot], sight.rho[r, slot] = node, np.float32(math.sqrt(dx * dx + dy * dy))


@njit(nogil=True, inline="always")
def _is_strong(kin, here, node):  # type: ignore[no-untyped-def]
    strong = False
    for e in range(kin.begin[here], kin.begin[here + 1]):
        strong = strong or (kin.node[e] == node and kin.value[e] > STRONG)
    return strong


@njit(nogil=True)
def _draw(board, state, r, found, radius, sight):  # type: ignore[no-untyped-def]
    """The features of one rollout's window: see WindowPolicy.window."""
    depot = board.demand.shape[0] > 0
    base = state.task[r] * board.size
    coords, here = board.coords, base + state.current[r]
    end = base if depot else base + state.first[r]
    ax, ay = coords[end, 0] - coords[here, 0], coords[end, 1] - coords[here, 1]
    far = math.sqrt(ax * ax + ay * ay)
    ahead_x, ahead_y = ax, ay
    if far == 0 and found > 0:  # at the anchor: the nearest neighbour gives the direction
        ahead_x = coords[base + sight.seen[r, 0], 0] - coords[here, 0]
        ahead_y = coords[base + sight.seen[r, 0], 1] - coords[here, 1]
    norm = math.sqrt(ahead_x * ahead_x + ahead_y * ahead_y)
    cosine, sine = (ahead_x / norm, ahead_y / norm) if norm > 0 else (1.0, 0.0)
    sight.anchor[r, 0] = min(far / radius, FAR)
    sight.anchor[r, 1] = math.log1p(far / radius)
    if depot:
        sight.anchor[r, 2] = np.float32(state.units[r]) / np.float32(board.capacity[state.task[r]])
    for t in range(found):
        node = base + sight.seen[r, t]
        dx, dy = coords[node, 0] - coords[here, 0], coords[node, 1] - coords[here, 1]
        rho = float(sight.rho[r, t])
        scale = rho / FAR if rho > FAR * radius else radius
        sight.nodes[r, t, 0] = (dx * cosine + dy * sine) / scale
        sight.nodes[r, t, 1] = (dy * cosine - dx * sine) / scale
        sight.nodes[r, t, 2] = rho / scale
        sight.nodes[r, t, 3] = (far - math.sqrt((dx - ax) ** 2 + (dy - ay) ** 2)) / scale
        if depot:
            sight.nodes[r, t, 4] = float(board.demand[node]) / max(state.units[r], 1)
            sight.nodes[r, t, 5] = float(board.demand[node]) / board.capacity[state.task[r]]


@njit(nogil=True)
def _draw_kin(board, state, r, found, sight, scratch):  # type: ignore[no-untyped-def]
    """What one rollout's window shows of kin: the last features, and the matrix among its tokens."""
    depot, served, token = board.demand.shape[0] > 0, scratch.served, scratch.token
    kin, base = board.kin, state.task[r] * board.size
    anchor = 0 if depot else state.first[r]
    last, end = sight.nodes.shape[2] - 3, sight.anchor.shape[1] - 2
    sight.kin[r] = np.float32(0.0)
    sight.anchor[r, end] = np.float32(0.0)
    sight.anchor[r, end + 1] = np.float32(0.0) if depot else _kin_left(kin, base + anchor, served)
    token[anchor] = 0
    for t in range(found):
        token[sight.seen[r, t]] = 1 + t
        sight.nodes[r, t, last] = np.float32(0.0)
        sight.nodes[r, t, last + 2] = _kin_left(kin, base + sight.seen[r, t], served)
    for t in range(found + 1):
        node = anchor if t == 0 else sight.seen[r, t - 1]
        for e in range(kin.begin[base + node], kin.begin[base + node + 1]):
            if token[kin.node[e]] >= 0:
                sight.kin[r, t, token[kin.node[e]]] = kin.value[e]
    here = base + state.current[r]
    for e in range(kin.begin[here], kin.begin[here + 1]):
        t = token[kin.node[e]]
        if t == 0:
            sight.anchor[r, end] = kin.value[e]
        elif t > 0:
            sight.nodes[r, t - 1, last] = kin.value[e]
    token[anchor] = -1
    for t in range(found):
        sight.nodes[r, t, last + 1] = sight.kin[r, 0, 1 + t]
        token[sight.seen[r, t]] = -1


@njit(nogil=True)
def _kin_left(kin, row, served):  # type: ignore[no-untyped-def]
    """A node's kin with all who are not served yet. Always added up in the same order: equal windows look equal."""
    total = np.float32(0.0)
    for e in range(kin.begin[row], kin.begin[row + 1]):
        if not served[kin.node[e]]:
            total += kin.value[e]
    return total


@njit(nogil=True)
def _draw_strands(board, state, r, found, sight, scratch):  # type: ignore[no-untyped-def]
    """What moves to the nodes of one rollout's window would leave behind: the features before those of kin."""
    scratch.space.is_open[:] = ~scratch.served
    at, end = sight.nodes.shape[2] - 3, sight.anchor.shape[1] - 2
    sight.anchor[r, end - 1] = read_strands(
        board.kin, state.task[r] * board.size, state.first[r], state.current[r], sight.seen[r], found, scratch.space,
        sight.nodes[r, :, at - FEATURES : at],
    )  # fmt: skip


@njit(nogil=True)
def _draw_plans(board, state, r, found, sight, scratch):  # type: ignore[no-untyped-def]
    """Strong kin where plans, or savings on the rest, join the tokens of one rollout, or the current node with them."""
    task, row, here = state.task[r], state.task[r] * board.size, state.current[r]
    among, to_here, token = scratch.among, scratch.to_here, scratch.token
    among[:] = to_here[:] = np.float32(0.0)
    read_plans(board.kin.plans, row, here, scratch.served, sight.seen[r], found, token, among, to_here)
    pairs = board.kin.pairs[board.kin.pairs_begin[task] : board.kin.pairs_begin[task + 1]]
    if len(pairs) > 0:
        demand = board.demand[row : row + board.size]
        join_rest(pairs, demand, board.capacity[task], here, state.units[r], scratch.served, scratch.rest)
        read_rest(scratch.rest.links, here, sight.seen[r], found, token, among, to_here)
    last, end = sight.nodes.shape[2] - 3, sight.anchor.shape[1] - 2
    for t in range(found + 1):
        for u in range(found + 1):
            if among[t, u] > np.float32(LEAST_SHARE):
                sight.kin[r, t, u] = _strong(among[t, u])
        if to_here[t] > np.float32(LEAST_SHARE) and t == 0:
            sight.anchor[r, end] = _strong(to_here[t])
        elif to_here[t] > np.float32(LEAST_SHARE):
            sight.nodes[r, t - 1, last] = _strong(to_here[t])
    for t in range(found):
        sight.nodes[r, t, last + 1] = sight.kin[r, 0, 1 + t]


@njit(nogil=True, inline="always")
def _strong(share):  # type: ignore[no-untyped-def]
    return np.float32(STRONG + (1 - STRONG) * min(share, np.float32(1.0)))


@njit(nogil=True, cache=True)
def move(board, state, sight, memory, clip, uniforms, actions, certainty, step):  # type: ignore[no-untyped-def]
    """Choose by the scores, greedily or by uniforms (R, T), and go there."""
    depot = board.demand.shape[0] > 0
    for r in range(len(state.current)):
        found, slot = sight.found[r], memory.slot[r]
        home = _may_return(state, r, depot)
        if found == 0 and not home:  # a finished tour stays
            actions[r, step], certainty[r, step] = state.current[r], np.float32(1.0)
            continue
        if slot < 0:
            node, certainty[r, step] = np.int64(0) if home else sight.seen[r, 0], np.float32(uniforms.shape[0] > 0)
        elif uniforms.shape[0] > 0:
            scores = memory.scores[slot]
            node, certainty[r, step] = _sample(sight.seen[r], scores, found, home, clip, uniforms[r, step])
        else:
            node = _best(sight.seen[r], memory.scores[slot], found, home)
        actions[r, step] = node
        _go(board, state, r, node)


@njit(nogil=True)
def _best(index, scores, found, home):  # type: ignore[no-untyped-def]
    """The node with the highest score; of equals the lowest."""
    node, top = (np.int64(0), scores[0]) if home else (index[0], scores[1])
    for t in range(found):
        if scores[1 + t] > top or (scores[1 + t] == top and index[t] < node):
            node, top = index[t], scores[1 + t]
    return node


@njit(nogil=True)
def _sample(index, scores, found, home, clip, uniform):  # type: ignore[no-untyped-def]
    """A node drawn from softmax(clip * tanh(scores)) by inverting the distribution, nodes in order of their index.

    And the probability of the likeliest.
    """
    order = np.argsort(index[:found])
    mass = np.empty(found + 1)
    top = math.tanh(scores[0]) if home else -1.0
    for t in range(found):
        top = max(top, math.tanh(scores[1 + t]))
    total = math.exp(clip * (math.tanh(scores[0]) - top)) if home else 0.0
    mass[0] = total
    for i in range(found):
        total += math.exp(clip * (math.tanh(scores[1 + order[i]]) - top))
        mass[1 + i] = total
    target = uniform * total
    for i in range(found + 1):
        if mass[i] > target:
            return (np.int64(0) if i == 0 else index[order[i - 1]]), 1.0 / total
    return index[order[found - 1]], 1.0 / total
