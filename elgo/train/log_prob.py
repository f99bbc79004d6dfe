"""Log-probabilities of given moves and their gradient, on a CPU from compiled kernels.

The network of `elgo.decode`, for many states side by side. Torch makes the tables from the weights, with autograd, and
does the one large matrix product; the functions before and after it have kernels, forward and backward:

- `Glimpse`: the scores q.k of a state are the sum of two table rows, the current node's and that of the first node
  (TSP) or of the load (CVRP). So exp() is taken of the tables, the gradient is added up in their rows, and both pass
  through queries and keys once per row instead of once per state.
- `Choice`: the local policy, tanh and the softmax. What is kept of them is the gradient.

A state without a choice has log-probability 0 and no gradient, and is left out. Tests hold all of it equal to torch.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elgo.decode.arithmetic import Floats
from elgo.decode.compiled import one_blas_thread, supports
from elgo.decode.local_kernels import LocalTables, neighbour_lists
from elgo.decode.tables import kernel_config, local_tensors, pad_nodes
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import Batch, State, make_batch
from elgo.model.global_policy import Encoding, GlobalPolicy
from elgo.model.protocols import PolicyLike
from elgo.problem.task import Task
from elgo.train.log_prob_kernels import Context, GlimpseTables, States, choose, glimpse, glimpse_back, local_back

SLICE = 2048  # states of which a thread takes care together; the same for any number of threads, as sums depend on it


def fits(policy: PolicyLike, encoding: Any) -> TypeGuard[Policy]:
    """Return whether the kernels know this network, and it is where they run; torch runs everywhere."""
    if not supports(policy) or policy.global_ is None or torch.is_autocast_enabled("cpu"):
        return False
    return encoding.keys.device.type == "cpu" and encoding.keys.dtype == torch.float32


def log_prob(
    policy: PolicyLike, batch: Batch, actions: Tensor, steps: Tensor | None = None, uncertain: Tensor | None = None
) -> Tensor:
    """Return what `Policy.log_prob` does, from compiled kernels where these know the network.

    `uncertain` (1, M, S), of one task only, marks the moves to compute; the others count as log p = 0.
    """
    if steps is None:
        steps = torch.arange(1, actions.shape[2], device=actions.device)
    state = policy.env.along(batch, actions, steps)
    chosen = actions[:, :, steps].flatten(1, 2)
    encoding = policy.encode(batch)
    if uncertain is None:
        return move_log_prob(policy, encoding, state, chosen).view(*actions.shape[:2], -1)
    worth = uncertain[0].flatten()
    log_p = torch.zeros(chosen.shape, device=chosen.device)
    if worth.any():
        found = move_log_prob(policy, encoding, State(*(part[:, worth] for part in state)), chosen[:, worth])
        log_p = log_p.masked_scatter(worth, found)
    return log_p.view(*actions.shape[:2], -1)


def move_log_prob(policy: PolicyLike, encoding: Any, state: State, chosen: Tensor) -> Tensor:
    """(B, M) log-probability of moving to `chosen` (B, M), from compiled kernels where these know the network."""
    if not fits(policy, encoding):
        return policy.logits(encoding, state).log_softmax(-1).gather(2, chosen[:, :, None]).squeeze(2)
    is_open = pad_nodes(policy.env.valid(encoding.batch, state)).float()
    free = is_open.sum(-1) > 1
    with torch.set_grad_enabled(torch.is_grad_enabled() and policy.config.local_policy):
        local = local_tensors(policy)
    open_count = is_open[:, :, int(policy.env.has_depot) :].sum(-1).long()
    log_p = []
    for i, own in enumerate(free):
        tables, other = _glimpse_tables(policy, encoding, state, i, own)
        parts = (x[i, own] for x in (state.load, chosen, open_count, is_open))
        states = States(*(x.numpy() for x in (state.current[i, own], other, *parts)))
        glimpse = Glimpse.apply(*tables, states).transpose(0, 1).flatten(1)
        scores = torch.addmm(_base(policy, encoding, i), glimpse, pad_nodes(encoding.readout[i].T))
        log_p.append(Choice.apply(scores, *local, states, _context(policy, encoding.batch, i)))
    return torch.zeros(chosen.shape).masked_scatter(free, torch.cat(log_p))


def warm_up() -> None:
    """Load the kernels from the cache; compile them the first time."""
    policy = Policy(PolicyConfig("tsp", width=8, heads=1, layers=1, hidden=8))
    batch = make_batch([Task(np.eye(3, 2), None, None)])
    log_prob(policy, batch, torch.arange(3)[None, None]).sum().backward()


def _glimpse_tables(
    policy: Policy, encoding: Encoding, state: State, i: int, own: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Task i's `GlimpseTables`, through which gradients flow, and the row of the second one for its states `own`."""
    net, heads = policy.global_, policy.config.heads
    assert isinstance(net, GlobalPolicy)
    keys = encoding.keys[i].transpose(1, 2) / math.sqrt(encoding.keys.shape[3])  # (H, d, N)
    last = encoding.query_last[i].unflatten(1, (heads, -1)).transpose(0, 1) @ keys
    if encoding.query_first is not None:
        other = encoding.query_first[i].unflatten(1, (heads, -1)).transpose(0, 1) @ keys
        row = state.first[i, own]
    else:
        assert net.query_load is not None
        load, row = policy.env.load_share(encoding.batch, state)[i, own].unique(return_inverse=True)
        other = load[:, None] * (net.query_load.weight.view(heads, 1, -1) @ keys)
    return (pad_nodes(last), pad_nodes(other), pad_nodes(encoding.values[i].transpose(1, 2))), row


def _context(policy: Policy, batch: Batch, i: int) -> Context:
    config = kernel_config(policy.config)
    demand = batch.demand[i].numpy() if config.has_depot else np.zeros(0, np.int64)
    return Context(demand, neighbour_lists(batch.coords[i].numpy(), config.has_depot, config.euclidean), config)


def _base(policy: Policy, encoding: Encoding, i: int) -> Tensor:
    """(P,) what a node's score has in every state: the offset minus xi, and without xi for the depot."""
    xi = torch.full_like(encoding.offset[i], policy.config.xi if policy.config.penalty else 0.0)
    xi[: int(policy.env.has_depot)] = 0.0
    return pad_nodes(encoding.offset[i] - xi)


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
        _spread(lambda h: glimpse(scores.head(h), factors.head(h), states, out[h]), len(out))
        ctx.scores, ctx.factors, ctx.states, ctx.out = scores, factors, states, out
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, factors, states, out = ctx.scores, ctx.factors, ctx.states, ctx.out
        slopes = grad.contiguous().numpy()
        grads = GlimpseTables(*(np.zeros_like(x) for x in scores))

        def add_gradient(h: int) -> None:
            glimpse_back(scores.head(h), factors.head(h), states, out[h], slopes[h], grads.head(h))

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

        def choose_part(j: int) -> Any:
            return choose(local, states.part(rows[j]), context, slope[rows[j]], out[rows[j]])

        ctx.seen = _spread(choose_part, len(rows))
        ctx.slope, ctx.local, ctx.config, ctx.rows = torch.from_numpy(slope), local, context.config, rows
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores = ctx.slope * grad[:, None]
        if not ctx.config.use_local:
            return scores, None, None, None, None, None
        local, rows, seen, slopes, depot = ctx.local, ctx.rows, ctx.seen, scores.numpy(), ctx.config.has_depot
        parts = _spread(lambda j: local_back(local, depot, slopes[rows[j]], seen[j]), len(rows))
        return scores, *(torch.from_numpy(np.sum(x, axis=0)) for x in zip(*parts, strict=True)), None, None
