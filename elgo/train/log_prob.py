"""Weighted sums of the log-probabilities of given moves, and their gradient; on a CPU from compiled kernels.

Both training methods know beforehand how much each log-probability counts: by its advantage, or by 1. So the kernels
make the gradient in the same pass, block by block, while everything is in the cache. Tests hold all of it equal to
torch.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elgo.decode.arithmetic import LANES, Integers
from elgo.decode.blas import one_blas_thread
from elgo.decode.compiled import supports
from elgo.decode.local_kernels import LocalTables, neighbour_lists
from elgo.decode.tables import kernel_config
from elgo.decode.tiles import LANES as TILE_LANES
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import State, gather_nodes, make_batch
from elgo.model.global_policy import Encoding, GlobalPolicy
from elgo.model.protocols import PolicyLike
from elgo.problem.task import Task
from elgo.train.glimpse_kernels import Tables
from elgo.train.log_prob_kernels import Context, States, list_states, task_gradient


class Moves(NamedTuple):
    """Sequences of nodes for B tasks, and how much the log-probability of each move counts."""

    actions: Tensor  # (B, M, T)
    weight: Tensor  # (B, M, T) float32; moves of weight 0 are left out, and the start must be
    route_ends: Tensor | None = None  # (B, N) moves away from the depot count as moves to any open one of these nodes


def weighted_log_prob(policy: PolicyLike, encoding: Any, moves: Moves) -> Tensor:
    """Return the sum of weight * log p over the moves, from compiled kernels where these know the network."""
    return compiled_sum(policy, encoding, moves) if fits(policy, encoding) else torch_sum(policy, encoding, moves)


def fits(policy: PolicyLike, encoding: Any) -> TypeGuard[Policy]:
    """Return whether the kernels know this network, and it is where they run; torch runs everywhere."""
    if not supports(policy) or policy.global_ is None or torch.is_autocast_enabled("cpu"):
        return False
    return encoding.keys.device.type == "cpu" and encoding.keys.dtype == torch.float32


def warm_up() -> None:
    """Load the kernels from the cache; compile them the first time."""
    policy = Policy(PolicyConfig("tsp", width=8, heads=1, layers=1, hidden=8))
    batch = make_batch([Task(np.eye(3, 2), None, None)])
    moves = Moves(torch.arange(3)[None, None], torch.tensor([[[0.0, 1.0, 0.0]]]))
    weighted_log_prob(policy, policy.encode(batch), moves).backward()


# --- torch -----------------------------------------------------------------------------------------------------------


def torch_sum(policy: PolicyLike, encoding: Any, moves: Moves) -> Tensor:
    """Return the sum of weight * log p by torch, on any device with any network."""
    actions, weight, ends = moves
    state = policy.env.along(encoding.batch, actions, torch.arange(1, actions.shape[2], device=actions.device))
    chosen, weight = actions[:, :, 1:].flatten(1), weight[:, :, 1:].flatten(1)
    most = int((weight != 0).sum(1).max())
    if most < weight.shape[1]:  # the moves that count, and others where a task has fewer of them
        rows = (weight == 0).sort(dim=1, stable=True).indices[:, :most]
        state = State(*(_take(x, rows) for x in state))
        chosen, weight = chosen.gather(1, rows), weight.gather(1, rows)
    log_p = policy.logits(encoding, state).log_softmax(-1)  # (B, states, N)
    right = log_p.gather(2, chosen[:, :, None]).squeeze(2)
    if ends is not None:
        any_end = (weight != 0) & (state.current == 0)
        wrong = any_end[:, :, None] & ~(ends[:, None] & ~state.visited)
        right = torch.where(any_end, log_p.masked_fill(wrong, -torch.inf).logsumexp(-1), right)
    return (weight * right).sum()


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Rows (B, R) of x (B, S) or (B, S, N)."""
    return x.gather(1, rows) if x.dim() == 2 else x.gather(1, rows[:, :, None].expand(-1, -1, x.shape[2]))


# --- compiled --------------------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """The states of one task."""

    states: States
    other: Integers  # (S,) row of query_other for each state
    rows: slice  # of query_other for all tasks that are this task's
    context: Context


def compiled_sum(policy: Policy, encoding: Encoding, moves: Moves) -> Tensor:
    """Return the sum of weight * log p over the moves from compiled kernels, which know its gradient."""
    tables = [x.transpose(1, 2).flatten(2) for x in (encoding.keys, encoding.values)]
    with torch.set_grad_enabled(torch.is_grad_enabled() and policy.config.local_policy):
        local = local_tensors(policy)
    jobs, query_other = _jobs(policy, encoding, moves)
    return _WeightedLogProb.apply(
        encoding.query_last, query_other, *tables, encoding.readout, encoding.offset, *local, jobs
    )


def local_tensors(policy: Policy) -> tuple[Tensor, Tensor, Tensor]:
    """Return `elgo.decode.tables.local_tables` as tensors, through which gradients flow."""
    net, folded = policy.local, policy.local.fold(len(policy.local.pe))
    feature = torch.zeros(3, policy.config.local_width, device=folded.rank.device)
    feature[: net.embed.in_features] = net.embed.weight.T
    rank = F.pad(folded.rank, (0, 0, 0, -len(folded.rank) % LANES))
    basis = torch.cat([rank, feature, torch.zeros_like(feature[:1])])  # (T + 4, E)
    summary = basis @ folded.mix  # (H, T + 4, E)
    summary[0, -1] = folded.bias
    readout = F.pad(summary.flatten(0, 1) @ basis.T, (0, -len(basis) % TILE_LANES))
    attend, by_rank = folded.attend @ feature.T, folded.attend @ rank.T
    most = by_rank.amax(1) + attend.abs() @ attend.new_tensor([1.0, math.pi, 1.0])
    return attend, by_rank - most.detach()[:, None], readout


def _pad_nodes(x: Tensor) -> Tensor:
    """Return x with the last axis padded with zeros to a multiple of LANES."""
    return F.pad(x, (0, -x.shape[-1] % LANES))


def _jobs(policy: Policy, encoding: Encoding, moves: Moves) -> tuple[list[_Job], Tensor]:
    """Return each task's states, and for all tasks together what first nodes (TSP) or loads (CVRP) add to queries."""
    batch, net, config = encoding.batch, policy.global_, kernel_config(policy.config)
    assert isinstance(net, GlobalPolicy)
    actions, weight = moves.actions.numpy(), moves.weight.numpy()
    demand = _pad_nodes(batch.demand).numpy()
    ends = _pad_nodes(torch.zeros_like(batch.demand) if moves.route_ends is None else moves.route_ends).float().numpy()
    jobs, loads, begin, sizes = [], [], 0, batch.size.tolist()
    for i in range(len(actions)):
        size, capacity, any_end = int(sizes[i]), int(batch.capacity[i]), moves.route_ends is not None
        states = list_states(actions[i], weight[i], size, demand[i], capacity, any_end)
        if config.has_depot:
            units, other = np.unique(states.units, return_inverse=True)
            loads.append(units.astype(np.float32) / np.float32(capacity))
            rows = slice(begin, begin + len(units))
        else:
            other, rows = states.sequence, slice(begin, begin + actions.shape[1])
        lists = neighbour_lists(batch.coords[i].numpy(), config.has_depot, config.euclidean)
        jobs.append(_Job(states, other, rows, Context(demand[i], ends[i], lists, config, policy.config.heads)))
        begin = rows.stop
    if encoding.query_first is not None:
        return jobs, gather_nodes(encoding.query_first, moves.actions[:, :, 0]).flatten(0, 1)
    assert net.query_load is not None
    return jobs, net.query_load(torch.from_numpy(np.concatenate(loads))[:, None])


class _WeightedLogProb(Function):
    """The sum, from `Tables` of all tasks and the local policy's tables. What is kept of it is the gradient."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *tensors, jobs = arguments
        arrays = [x.contiguous().numpy() for x in tensors]
        tables, local = Tables(*arrays[:6]), LocalTables(*arrays[6:])
        grads = Tables(*(np.empty_like(x) for x in tables))

        def run(i: int) -> tuple[float, LocalTables]:
            job = jobs[i]
            mine, own = (_of_task(x, i, job.rows) for x in (tables, grads))
            return task_gradient(mine, local, job.states, job.other, job.context, own)

        totals, parts = zip(*_on_threads(run, len(jobs)), strict=True)
        ctx.grads = [torch.from_numpy(x) for x in grads]
        used = jobs[0].context.config.use_local
        ctx.grads += [torch.from_numpy(np.sum(x, axis=0)) if used else None for x in zip(*parts, strict=True)]
        return torch.tensor(sum(totals), dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if x is None else x * grad for x in ctx.grads), None


def _of_task(tables: Tables, i: int, rows: slice) -> Tables:
    """Return the part of the tables of all tasks that is task i's."""
    return Tables(*(x[rows] if name == "query_other" else x[i] for name, x in tables._asdict().items()))


def _on_threads(job: Callable[[int], Any], count: int) -> list[Any]:
    """Return what job(0) to job(count - 1) return, on as many threads as torch has; BLAS starts none of its own."""
    with one_blas_thread():
        if torch.get_num_threads() == 1:
            return [job(i) for i in range(count)]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return list(pool.map(job, range(count)))
