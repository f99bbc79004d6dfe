"""The CPU fast path of training: the log-probabilities of given moves and their gradient, from compiled kernels.

The network of `elg.fast`, for many states side by side. Torch makes the tables from the weights, with autograd, and does
the one large matrix product; the functions before and behind it have kernels of their own, forwards and backwards:

- `Glimpse`: the scores q.k of a state are the sum of two table rows, the current node's and that of the first node
  (TSP) or of the load (CVRP). So exp() is taken of the tables, the gradient is added up in their rows, and both pass
  through queries and keys once per row instead of once per state.
- `Choice`: the local policy, tanh and the softmax. What is kept of them is the gradient.

A state without a choice has log-probability 0 and no gradient, and is left out. Tests hold all of it equal to torch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elg import fast
from elg.decode import one_blas_thread
from elg.fast import CLOSED, FAST, UNDERFLOW, Floats, LocalTables, Plane, Rules
from elg.policy import Cache, Policy
from elg.problems import State

BLOCK = 128  # states whose weights are in the cache together

Integers = NDArray[np.int64]


class Scene(NamedTuple):
    """S states of one task, its N nodes padded to P, and all else that has no gradient."""

    current: Integers  # (S,)
    other: Integers  # (S,) row of the second table: the first node, or the rank of the load
    units: Integers  # (S,) left in the vehicle
    chosen: Integers  # (S,) the move
    opened: Integers  # (S,) nodes that may come next, without the depot
    is_open: Floats  # (S, P) 1 for those nodes and, if it may be next, the depot; 0 for others
    demand: Integers  # (N,), or empty in TSP
    plane: Plane
    rule: Rules


class GlimpseTables(NamedTuple):
    """What the glimpse is made of, for H heads of width d; or the gradient of that."""

    last: Floats  # (H, N, P) scores of all nodes for a current node
    other: Floats  # (H, O, P) what the first node or the load adds to them
    values: Floats  # (H, d, P)


def fits(policy: Policy, cache: Cache) -> bool:
    """Whether the kernels know this network, and it runs where they do; `Policy.logits` runs everywhere."""
    light = policy.config.global_policy and policy.config.local == "light"
    on_cpu = cache.keys.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    return on_cpu and light and cache.keys.dtype == torch.float32 and fast.supports(policy.config)


def log_prob(policy: Policy, cache: Cache, state: State, chosen: Tensor) -> Tensor:
    """(B, M) log-probability of moving to `chosen` (B, M)."""
    is_open = fast.pad_nodes(policy.problem.valid(cache.batch, state)).float()
    free = is_open.sum(-1) > 1
    with torch.set_grad_enabled(torch.is_grad_enabled() and policy.config.local_policy):
        local = fast.local_tensors(policy)
    log_p = []
    with one_blas_thread():
        for i, own in enumerate(free):
            tables, other = _glimpse_tables(policy, cache, state, i, own)
            scene = _scene(policy, cache, state, i, own, other, is_open[i, own], chosen[i, own])
            glimpse = Glimpse.apply(*tables, scene).transpose(0, 1).flatten(1)
            scores = torch.addmm(_base(policy, cache, i), glimpse, fast.pad_nodes(cache.readout[i].T))
            log_p.append(Choice.apply(scores, *local, scene))
    return torch.zeros(chosen.shape).masked_scatter(free, torch.cat(log_p))


def _glimpse_tables(
    policy: Policy, cache: Cache, state: State, i: int, own: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Task i's `GlimpseTables`, through which gradients flow, and the row of the second one for its states `own`."""
    net, heads = policy.global_, policy.config.heads
    assert net is not None
    keys = cache.keys[i].transpose(1, 2) / math.sqrt(cache.keys.shape[3])  # (H, d, N)
    last = cache.query_last[i].unflatten(1, (heads, -1)).transpose(0, 1) @ keys
    if cache.query_first is not None:
        other = cache.query_first[i].unflatten(1, (heads, -1)).transpose(0, 1) @ keys
        row = state.first[i, own]
    else:
        assert net.query_load is not None
        load, row = policy.problem.load_share(cache.batch, state)[i, own].unique(return_inverse=True)
        other = load[:, None] * (net.query_load.weight.view(heads, 1, -1) @ keys)
    return (fast.pad_nodes(last), fast.pad_nodes(other), fast.pad_nodes(cache.values[i].transpose(1, 2))), row


def _scene(
    policy: Policy, cache: Cache, state: State, i: int, own: Tensor, other: Tensor, is_open: Tensor, chosen: Tensor
) -> Scene:
    batch, depot = cache.batch, policy.problem.has_depot
    opened = is_open[:, int(depot) :].sum(-1).long()
    parts = (state.current[i, own], other, state.load[i, own], chosen, opened, is_open)
    demand = np.zeros(0, np.int64) if batch.demand is None else batch.demand[i].numpy()
    plane = fast.plane(batch.coords[i].numpy(), depot, policy.config.coordinates == "euclidean")
    return Scene(*(x.numpy() for x in parts), demand, plane, fast.rules(policy.config))


def _base(policy: Policy, cache: Cache, i: int) -> Tensor:
    """(P,) what a node's score has in every state: the offset minus xi, and without xi for the depot."""
    xi = torch.full_like(cache.offset[i], policy.config.xi if policy.config.penalty else 0.0)
    xi[: int(policy.problem.has_depot)] = 0.0
    return fast.pad_nodes(cache.offset[i] - xi)


class Glimpse(Function):
    """The glimpse (H, S, d) of each state, from its tables."""

    @staticmethod
    def forward(ctx: Any, last: Tensor, other: Tensor, values: Tensor, scene: Scene) -> Tensor:
        ctx.scene = scene
        ctx.scores = GlimpseTables(*(x.contiguous().numpy() for x in (last, other, values)))
        ctx.factors = ctx.scores._replace(last=_factors(last), other=_factors(other))
        out = torch.empty(len(values), len(scene.current), values.shape[1])
        _glimpse(ctx.scores, ctx.factors, scene, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grads = GlimpseTables(*(np.zeros_like(x) for x in ctx.scores))
        _glimpse_back(ctx.scores, ctx.factors, ctx.scene, grad.contiguous().numpy(), grads)
        return *(torch.from_numpy(x) for x in grads), None


def _factors(scores: Tensor) -> Floats:
    """exp(scores - row maximum)."""
    return (scores - scores.amax(-1, keepdim=True)).exp_().numpy()


class Choice(Function):
    """log p (S,) of the moves, from u_global minus xi (S, P) and the local policy's tables."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, attend: Tensor, rank: Tensor, readout: Tensor, scene: Scene) -> Tensor:
        ctx.local = LocalTables(*(x.contiguous().numpy() for x in (attend, rank, readout)))
        ctx.scene, ctx.work = scene, fast.local_work(ctx.local, len(scores))
        ctx.slope, out = scores.clone(), torch.empty(len(scores))
        _choose(ctx.local, scene, ctx.slope.numpy(), ctx.work, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores = ctx.slope * grad[:, None]
        if not ctx.scene.rule.use_local:
            return scores, None, None, None, None
        grads = LocalTables(*(np.zeros_like(x) for x in ctx.local))
        _local_back(ctx.local, len(ctx.scene.demand) > 0, scores.numpy(), ctx.work, grads)
        return scores, *(torch.from_numpy(x) for x in grads), None


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(fastmath=FAST)
def _multiply(last, c, other, o, h, is_open, r, rows, i):  # type: ignore[no-untyped-def]
    """rows[i] = last[h, c] * other[h, o] where open; their sum."""
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = last[h, c, n] * other[h, o, n] * is_open[r, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def _weigh_again(last, c, other, o, h, is_open, r, rows, i):  # type: ignore[no-untyped-def]
    """The same from scores, for when the product of their factors underflows."""
    for n in range(rows.shape[1]):
        rows[i, n] = last[h, c, n] + other[h, o, n]
    return fast.exponentials(rows, i, is_open, r)


@njit(nogil=True, fastmath=FAST)
def _weigh(scores, factors, scene, h, begin, rows, total):  # type: ignore[no-untyped-def]
    """rows = the weights of head h in the states from `begin` on, up to a factor; total = their sums."""
    last, other, current, others, is_open = factors.last, factors.other, scene.current, scene.other, scene.is_open
    for i in range(rows.shape[0]):
        r = begin + i
        total[i] = _multiply(last, current[r], other, others[r], h, is_open, r, rows, i)
        if total[i] < UNDERFLOW:
            total[i] = _weigh_again(scores.last, current[r], scores.other, others[r], h, is_open, r, rows, i)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _glimpse(scores, factors, scene, out):  # type: ignore[no-untyped-def]
    """Into out (H, S, d)."""
    heads, count, d = out.shape
    rows = np.empty((BLOCK, scores.last.shape[2]), np.float32)
    total = np.empty(BLOCK, np.float32)
    for h in range(heads):
        for begin in range(0, count, BLOCK):
            size = min(BLOCK, count - begin)
            _weigh(scores, factors, scene, h, begin, rows[:size], total)
            np.dot(rows[:size], scores.values[h].T, out[h, begin : begin + size])
            for i in range(size):
                for j in range(d):
                    out[h, begin + i, j] /= total[i]


@njit(fastmath=FAST)
def _add_scores(last, c, other, o, h, rows, slopes, i, inverse):  # type: ignore[no-untyped-def]
    """Add the gradient of a state's scores to last[h, c] and other[h, o]; rows[i] become weights that sum to 1.

    slopes[i] is the gradient of these.
    """
    mean = np.float32(0.0)
    for n in range(rows.shape[1]):
        mean += rows[i, n] * slopes[i, n]
    mean *= inverse
    for n in range(rows.shape[1]):
        w = rows[i, n] * inverse
        rows[i, n] = w
        s = w * (slopes[i, n] - mean)
        last[h, c, n] += s
        other[h, o, n] += s


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _glimpse_back(scores, factors, scene, grad, grads):  # type: ignore[no-untyped-def]
    """Add the gradient of scores and values, given that of the glimpse (H, S, d), into grads."""
    heads, count, d = grad.shape
    rows = np.empty((BLOCK, scores.last.shape[2]), np.float32)
    slopes, values, total = np.empty_like(rows), np.empty((d, rows.shape[1]), np.float32), np.empty(BLOCK, np.float32)
    last, other, current, others = grads.last, grads.other, scene.current, scene.other
    for h in range(heads):
        for begin in range(0, count, BLOCK):
            size = min(BLOCK, count - begin)
            part = grad[h, begin : begin + size]
            np.dot(part, scores.values[h], slopes[:size])
            _weigh(scores, factors, scene, h, begin, rows[:size], total)
            for i in range(size):
                c, o = current[begin + i], others[begin + i]
                _add_scores(last, c, other, o, h, rows, slopes, i, np.float32(1.0) / total[i])
            np.dot(part.T, rows[:size], values)
            grads.values[h] += values


@njit(fastmath=FAST, error_model="numpy")
def _log_p(scores, r, is_open, chosen, clip, p):  # type: ignore[no-untyped-def]
    """log p of the chosen node; its gradient replaces scores[r]. p (1, P) is for the probabilities."""
    one = np.float32(1.0)
    for n in range(scores.shape[1]):
        t = fast.tanh32(scores[r, n])
        scores[r, n] = t
        p[0, n] = t if is_open[r, n] > 0 else CLOSED
    top = fast.top_of(p, 0, 0, p.shape[1])
    total = np.float32(0.0)
    for n in range(p.shape[1]):
        w = fast.exp32(clip * (p[0, n] - top)) * is_open[r, n]
        p[0, n] = w
        total += w
    t, inverse = scores[r, chosen], one / total
    for n in range(p.shape[1]):
        x = scores[r, n]
        scores[r, n] = clip * (x * x - one) * p[0, n] * inverse
    scores[r, chosen] += clip * (one - t * t)
    return clip * (t - top) - np.float32(math.log(total))


@njit(nogil=True, cache=True, fastmath=FAST)
def _choose(local, scene, scores, work, out):  # type: ignore[no-untyped-def]
    """log p of every state; its gradient replaces the scores (S, P)."""
    rule = scene.rule
    if rule.penalty or rule.use_local:
        fast.add_local(
            local, scene.plane, rule, scene.demand.shape[0] > 0, scene.current, scene.units, scene.demand,
            scene.is_open, scene.opened, scores, work,
        )  # fmt: skip
    is_open, chosen, clip = scene.is_open, scene.chosen, np.float32(rule.clip)
    p = np.empty((1, scores.shape[1]), np.float32)
    for r in range(scores.shape[0]):
        out[r] = _log_p(scores, r, is_open, chosen[r], clip, p)


@njit(nogil=True, cache=True, fastmath=FAST)
def _local_back(local, depot, scores, work, grads):  # type: ignore[no-untyped-def]
    """Add the gradient of the local tables, given that of the scores (S, P), into grads."""
    x, index, _, found, _, _, weights, out = work
    tokens, shift = x.shape[2], 1 if depot else 0
    out[:] = np.float32(0.0)
    for r in range(scores.shape[0]):
        if depot:
            out[r, 0] = scores[r, 0]
        for t in range(found[r]):
            out[r, shift + t] = scores[r, index[r, t]]
        for f in range(3):
            for t in range(tokens):
                out[r, tokens + f] += out[r, t] * x[r, f, t]
    np.dot(weights.T, out, grads.readout)
    slopes = np.dot(out, local.readout.T)
    for r in range(scores.shape[0]):
        _attend_back(weights, slopes, x, r, grads)


@njit(fastmath=FAST)
def _attend_back(weights, slopes, x, r, grads):  # type: ignore[no-untyped-def]
    """Add the gradient of what a token's features and rank add to its score, given that of `fast._attend`'s row r."""
    tokens, attend, rank = x.shape[2], grads.attend, grads.attend_rank
    for h in range(attend.shape[0]):
        at = h * (tokens + 4)
        a, b, c = slopes[r, at + tokens], slopes[r, at + tokens + 1], slopes[r, at + tokens + 2]
        mean = np.float32(0.0)
        for t in range(tokens):
            s = slopes[r, at + t] + a * x[r, 0, t] + b * x[r, 1, t] + c * x[r, 2, t]
            slopes[r, at + t] = s
            mean += weights[r, at + t] * s
        s0, s1, s2 = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for t in range(tokens):
            s = weights[r, at + t] * (slopes[r, at + t] - mean)
            rank[h, t] += s
            s0 += s * x[r, 0, t]
            s1 += s * x[r, 1, t]
            s2 += s * x[r, 2, t]
        attend[h, 0] += s0
        attend[h, 1] += s1
        attend[h, 2] += s2
