"""The CPU fast path of training: the log-probabilities of given moves and their gradient, from compiled kernels.

The network of `elgo.decode`, for many states side by side. Torch makes the tables from the weights, with autograd, and
does the one large matrix product; the functions before and behind it have kernels, forwards and backwards:

- `Glimpse`: the scores q.k of a state are the sum of two table rows, the current node's and that of the first node
  (TSP) or of the load (CVRP). So exp() is taken of the tables, the gradient is added up in their rows, and both pass
  through queries and keys once per row instead of once per state.
- `Choice`: the local policy, tanh and the softmax. What is kept of them is the gradient.

A state without a choice has log-probability 0 and no gradient, and is left out. Tests hold all of it equal to torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elgo.decode.arithmetic import (
    CLOSED,
    FAST,
    UNDERFLOW,
    Floats,
    Integers,
    exp32,
    exponentials,
    row_maximum,
    tanh32,
)
from elgo.decode.compiled import one_blas_thread, supports
from elgo.decode.local_kernels import (
    KernelConfig,
    LocalState,
    LocalTables,
    NeighbourLists,
    Observation,
    add_local_scores,
    neighbour_lists,
    new_observation,
)
from elgo.decode.tables import kernel_config, local_tensors, pad_nodes
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, State, make_batch
from elgo.model.global_policy import Encoding
from elgo.problem.task import Task

BLOCK = 128  # states whose weights are in the cache together
SLICE = 2048  # states of which a thread takes care together; the same for any number of threads, as sums depend on it


class States(NamedTuple):
    """S states of one task, its N nodes padded to P."""

    current: Integers  # (S,)
    other: Integers  # (S,) row of the second table: the first node, or the rank of the load
    units: Integers  # (S,) left in the vehicle
    chosen: Integers  # (S,) the move
    open_count: Integers  # (S,) nodes that may come next, without the depot
    is_open: Floats  # (S, P) 1 for those nodes and, if it may be next, the depot; 0 for others

    def part(self, rows: slice) -> States:
        return States._make(x[rows] for x in self)


class Context(NamedTuple):
    """What `Choice` knows of the task and of the policy besides the weights."""

    demand: Integers  # (N,), or empty in TSP
    lists: NeighbourLists
    config: KernelConfig


class GlimpseTables(NamedTuple):
    """What the glimpse is made of, for H heads of width d, or the gradient of that; for one head without the H."""

    last: Floats  # (H, N, P) scores of all nodes for a current node
    other: Floats  # (H, O, P) what the first node or the load adds to them
    values: Floats  # (H, d, P)

    def head(self, h: int) -> GlimpseTables:
        return GlimpseTables(*(x[h] for x in self))


def fits(policy: Policy, cache: Encoding) -> bool:
    """Whether the kernels know this network, and it runs where they do; `Policy.logits` runs everywhere."""
    on_cpu = cache.keys.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    return on_cpu and policy.config.global_policy and cache.keys.dtype == torch.float32 and supports(policy.config)


def log_prob(
    policy: Policy, batch: Batch, actions: Tensor, steps: Tensor | None = None, uncertain: Tensor | None = None
) -> Tensor:
    """Return what `Policy.log_prob` does, from compiled kernels where these know the network.

    Of one task, `uncertain` (1, M, S) may say where it is worth computing: elsewhere the policy is so sure of its move
    that the log-probability is taken as 0.
    """
    if steps is None:
        steps = torch.arange(1, actions.shape[2], device=actions.device)
    state = policy.env.along(batch, actions, steps)
    chosen = actions[:, :, steps].flatten(1, 2)
    encoding = policy.encode(batch)
    compute = move_log_prob if fits(policy, encoding) else Policy.move_log_prob
    if uncertain is None:
        return compute(policy, encoding, state, chosen).view(*actions.shape[:2], -1)
    worth = uncertain[0].flatten()
    log_p = torch.zeros(chosen.shape, device=chosen.device)
    if worth.any():
        found = compute(policy, encoding, State(*(part[:, worth] for part in state)), chosen[:, worth])
        log_p = log_p.masked_scatter(worth, found)
    return log_p.view(*actions.shape[:2], -1)


def move_log_prob(policy: Policy, cache: Encoding, state: State, chosen: Tensor) -> Tensor:
    """(B, M) log-probability of moving to `chosen` (B, M)."""
    is_open = pad_nodes(policy.env.valid(cache.batch, state)).float()
    free = is_open.sum(-1) > 1
    with torch.set_grad_enabled(torch.is_grad_enabled() and policy.config.local_policy):
        local = local_tensors(policy)
    open_count = is_open[:, :, int(policy.env.has_depot) :].sum(-1).long()
    log_p = []
    for i, own in enumerate(free):
        tables, other = _glimpse_tables(policy, cache, state, i, own)
        parts = (x[i, own] for x in (state.load, chosen, open_count, is_open))
        states = States(*(x.numpy() for x in (state.current[i, own], other, *parts)))
        glimpse = Glimpse.apply(*tables, states).transpose(0, 1).flatten(1)
        scores = torch.addmm(_base(policy, cache, i), glimpse, pad_nodes(cache.readout[i].T))
        log_p.append(Choice.apply(scores, *local, states, _context(policy, cache.batch, i)))
    return torch.zeros(chosen.shape).masked_scatter(free, torch.cat(log_p))


def warm_up() -> None:
    """Have the kernels ready: loaded from the cache, compiled the first time ever."""
    policy = Policy(PolicyConfig("tsp", width=8, heads=1, layers=1, hidden=8))
    batch = make_batch([Task(np.eye(3, 2), None, None)])
    log_prob(policy, batch, torch.arange(3)[None, None]).sum().backward()


def _glimpse_tables(
    policy: Policy, cache: Encoding, state: State, i: int, own: Tensor
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
        load, row = policy.env.load_share(cache.batch, state)[i, own].unique(return_inverse=True)
        other = load[:, None] * (net.query_load.weight.view(heads, 1, -1) @ keys)
    return (pad_nodes(last), pad_nodes(other), pad_nodes(cache.values[i].transpose(1, 2))), row


def _context(policy: Policy, batch: Batch, i: int) -> Context:
    demand = np.zeros(0, np.int64) if batch.demand is None else batch.demand[i].numpy()
    config = kernel_config(policy.config)
    return Context(demand, neighbour_lists(batch.coords[i].numpy(), config.has_depot, config.euclidean), config)


def _base(policy: Policy, cache: Encoding, i: int) -> Tensor:
    """(P,) what a node's score has in every state: the offset minus xi, and without xi for the depot."""
    xi = torch.full_like(cache.offset[i], policy.config.xi if policy.config.penalty else 0.0)
    xi[: int(policy.env.has_depot)] = 0.0
    return pad_nodes(cache.offset[i] - xi)


def _spread(job: Callable[[int], Any], count: int) -> list[Any]:
    """What job(0) to job(count - 1) give, on as many threads as torch has; BLAS within them must not start more."""
    with one_blas_thread(), ThreadPoolExecutor(torch.get_num_threads()) as pool:
        return list(pool.map(job, range(count)))


class Glimpse(Function):
    """The glimpse (H, S, d) of each state, from its tables."""

    @staticmethod
    def forward(ctx: Any, last: Tensor, other: Tensor, values: Tensor, states: States) -> Tensor:
        scores = GlimpseTables(*(x.contiguous().numpy() for x in (last, other, values)))
        factors = scores._replace(last=_factors(last), other=_factors(other))
        out = np.empty((len(values), len(states.current), values.shape[1]), np.float32)
        _spread(lambda h: _glimpse(scores.head(h), factors.head(h), states, out[h]), len(out))
        ctx.scores, ctx.factors, ctx.states, ctx.out = scores, factors, states, out
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, factors, states, out = ctx.scores, ctx.factors, ctx.states, ctx.out
        slopes = grad.contiguous().numpy()
        grads = GlimpseTables(*(np.zeros_like(x) for x in scores))

        def add_gradient(h: int) -> None:
            _glimpse_back(scores.head(h), factors.head(h), states, out[h], slopes[h], grads.head(h))

        _spread(add_gradient, len(slopes))
        return *(torch.from_numpy(x) for x in grads), None


def _factors(scores: Tensor) -> Floats:
    """exp(scores - row maximum)."""
    return (scores - scores.amax(-1, keepdim=True)).exp_().numpy()


class Choice(Function):
    """log p (S,) of the moves, from u_global minus xi (S, P) and the local policy's tables."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, attend: Tensor, rank: Tensor, readout: Tensor, states: States, context: Context
    ) -> Tensor:
        local = LocalTables(*(x.contiguous().numpy() for x in (attend, rank, readout)))
        rows = [slice(begin, begin + SLICE) for begin in range(0, max(1, len(scores)), SLICE)]
        slope, out = scores.numpy().copy(), np.empty(len(scores), np.float32)

        def choose(j: int) -> Any:
            return _choose(local, states.part(rows[j]), context, slope[rows[j]], out[rows[j]])

        ctx.seen = _spread(choose, len(rows))
        ctx.slope, ctx.local, ctx.config, ctx.rows = torch.from_numpy(slope), local, context.config, rows
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores = ctx.slope * grad[:, None]
        if not ctx.config.use_local:
            return scores, None, None, None, None, None
        local, rows, seen, slopes, depot = ctx.local, ctx.rows, ctx.seen, scores.numpy(), ctx.config.has_depot
        parts = _spread(lambda j: _local_back(local, depot, slopes[rows[j]], seen[j]), len(rows))
        return scores, *(torch.from_numpy(np.sum(x, axis=0)) for x in zip(*parts, strict=True)), None, None


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(fastmath=FAST)
def _multiply(last: Floats, c: int, other: Floats, o: int, is_open: Floats, r: int, rows: Floats, i: int) -> np.float32:
    """rows[i] = last[c] * other[o] where open; their sum."""
    total = np.float32(0.0)
    for n in range(rows.shape[1]):
        w = last[c, n] * other[o, n] * is_open[r, n]
        rows[i, n] = w
        total += w
    return total


@njit(fastmath=FAST)
def _weigh_again(
    last: Floats, c: int, other: Floats, o: int, is_open: Floats, r: int, rows: Floats, i: int
) -> np.float32:
    """The same from scores, for when the product of their factors underflows."""
    for n in range(rows.shape[1]):
        rows[i, n] = last[c, n] + other[o, n]
    return exponentials(rows, i, is_open, r)


@njit(nogil=True, fastmath=FAST)
def _weigh(
    scores: GlimpseTables, factors: GlimpseTables, states: States, begin: int, rows: Floats, total: Floats
) -> None:
    """rows = the weights in the states from `begin` on, up to a factor; total = their sums."""
    last, other, current, others, is_open = factors.last, factors.other, states.current, states.other, states.is_open
    for i in range(rows.shape[0]):
        r = begin + i
        total[i] = _multiply(last, current[r], other, others[r], is_open, r, rows, i)
        if total[i] < UNDERFLOW:
            total[i] = _weigh_again(scores.last, current[r], scores.other, others[r], is_open, r, rows, i)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _glimpse(scores: GlimpseTables, factors: GlimpseTables, states: States, out: Floats) -> None:
    """One head's glimpse into out (S, d)."""
    count, d = out.shape
    rows, total = np.empty((BLOCK, scores.last.shape[1]), np.float32), np.empty(BLOCK, np.float32)
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        _weigh(scores, factors, states, begin, rows[:size], total)
        np.dot(rows[:size], scores.values.T, out[begin : begin + size])
        for i in range(size):
            for j in range(d):
                out[begin + i, j] /= total[i]


@njit(fastmath=FAST)
def _add_scores(
    last: Floats, c: int, other: Floats, o: int, rows: Floats, slopes: Floats, i: int, mean: np.float32
) -> None:
    """Add the gradient of a state's scores to last[c] and other[o], given that of its weights in slopes[i]."""
    for n in range(rows.shape[1]):
        s = rows[i, n] * (slopes[i, n] - mean)
        last[c, n] += s
        other[o, n] += s


@njit(fastmath=FAST, error_model="numpy")
def _share(grad: Floats, r: int, glimpse: Floats, total: np.float32, part: Floats, i: int) -> np.float32:
    """part[i] = grad[r] / total, by which weights need not sum to 1; its product with the glimpse, which is the mean
    of the weights' gradient.
    """
    mean = np.float32(0.0)
    for j in range(grad.shape[1]):
        share = grad[r, j] / total
        part[i, j] = share
        mean += share * glimpse[r, j]
    return mean


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _glimpse_back(
    scores: GlimpseTables, factors: GlimpseTables, states: States, glimpse: Floats, grad: Floats, grads: GlimpseTables
) -> None:
    """Add the gradient of one head's scores and values into grads, given its glimpse (S, d) and that one's gradient."""
    count, width = len(grad), scores.last.shape[1]
    rows, total = np.empty((BLOCK, width), np.float32), np.empty(BLOCK, np.float32)
    slopes, values = np.empty_like(rows), np.empty((width, grad.shape[1]), np.float32)
    part, mean = np.empty((BLOCK, grad.shape[1]), np.float32), np.empty(BLOCK, np.float32)
    last, other, current, others = grads.last, grads.other, states.current, states.other
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        _weigh(scores, factors, states, begin, rows[:size], total)
        for i in range(size):
            mean[i] = _share(grad, begin + i, glimpse, total[i], part, i)
        np.dot(part[:size], scores.values, slopes[:size])
        for i in range(size):
            _add_scores(last, current[begin + i], other, others[begin + i], rows, slopes, i, mean[i])
        np.dot(rows[:size].T, part[:size], values)
        grads.values[:] += values.T


@njit(fastmath=FAST, error_model="numpy")
def _log_p(scores: Floats, r: int, is_open: Floats, chosen: int, clip: np.float32, p: Floats) -> np.float32:
    """log p of the chosen node; its gradient replaces scores[r]. p (1, P) is for the probabilities."""
    one = np.float32(1.0)
    for n in range(scores.shape[1]):
        t = tanh32(scores[r, n])
        scores[r, n] = t
        p[0, n] = t if is_open[r, n] > 0 else CLOSED
    top = row_maximum(p, 0, 0, p.shape[1])
    total = np.float32(0.0)
    for n in range(p.shape[1]):
        w = exp32(clip * (p[0, n] - top)) * is_open[r, n]
        p[0, n] = w
        total += w
    t, inverse = scores[r, chosen], one / total
    for n in range(p.shape[1]):
        x = scores[r, n]
        scores[r, n] = clip * (x * x - one) * p[0, n] * inverse
    scores[r, chosen] += clip * (one - t * t)
    return clip * (t - top) - np.float32(math.log(total))


@njit(nogil=True, cache=True, fastmath=FAST)
def _choose(local: LocalTables, states: States, context: Context, scores: Floats, out: Floats) -> Observation:
    """Write log p of every state; its gradient replaces the scores (S, P). Return what `_local_back` needs."""
    demand, lists, config = context
    seen = new_observation(local, len(out))
    if config.penalty or config.use_local:
        state = LocalState(states.current, states.units, states.open_count, states.is_open)
        add_local_scores(local, lists, config, demand, state, scores, seen)
    is_open, chosen, clip = states.is_open, states.chosen, np.float32(config.clip)
    p = np.empty((1, scores.shape[1]), np.float32)
    for r in range(out.shape[0]):
        out[r] = _log_p(scores, r, is_open, chosen[r], clip, p)
    return seen


@njit(fastmath=FAST)
def _attend_back(weights: Floats, slopes: Floats, x: Floats, r: int, attend: Floats, rank: Floats) -> None:
    """Add the gradient of what features and rank add to the scores, given slopes[r] of what `_attend` made."""
    tokens = x.shape[2]
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


@njit(nogil=True, cache=True, fastmath=FAST)
def _local_back(local: LocalTables, depot: bool, scores: Floats, seen: Observation) -> tuple[Floats, Floats, Floats]:
    """Return the gradient of the local tables, given that of the scores (S, P)."""
    x, index, found, weights, out = seen.features, seen.node, seen.found, seen.weights, seen.scores
    tokens, shift = x.shape[2], 1 if depot else 0
    attend, rank = np.zeros_like(local.attend), np.zeros_like(local.attend_rank)
    out[:] = np.float32(0.0)
    for r in range(scores.shape[0]):
        if depot:
            out[r, 0] = scores[r, 0]
        for t in range(found[r]):
            out[r, shift + t] = scores[r, index[r, t]]
        for f in range(3):
            for t in range(tokens):
                out[r, tokens + f] += out[r, t] * x[r, f, t]
    slopes = np.dot(out, local.readout.T)
    for r in range(scores.shape[0]):
        _attend_back(weights, slopes, x, r, attend, rank)
    return attend, rank, np.dot(weights.T, out)
