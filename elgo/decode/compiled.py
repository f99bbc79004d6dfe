"""The compiled path of decoding on a CPU: blocks of rollouts on a pool of threads, from tables made once per task.

It makes the rollouts of `elgo.model.rollout`: tests compare every kernel with torch. The kernels' modules explain what
makes it fast; benchmarks/decode.py measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from elgo.decode.blas import one_blas_thread
from elgo.decode.encoder import Encoding, encode_batch
from elgo.decode.global_kernels import GlobalTables, part_heads
from elgo.decode.local_kernels import LIST_LIMIT, NeighbourLists, neighbour_lists
from elgo.decode.rollout_kernel import Block, Demands, run_block
from elgo.decode.tables import global_tables, kernel_config, local_tables, no_global_tables
from elgo.decode.types import Actions, Request, Rollouts, new_rollouts
from elgo.model.checkpoint import Model, Weights
from elgo.model.config import PolicyConfig

if TYPE_CHECKING:
    from elgo.model.ensemble import Policy
    from elgo.model.global_policy import Encoding as TorchEncoding
    from elgo.model.protocols import PolicyLike

BLOCK = 128  # most rollouts in one kernel call: enough for BLAS, few enough for the cache
ENCODED_ROWS = 1024  # nodes of small tasks that are encoded at once, as rows of the same matrix products


def supports(policy: PolicyLike) -> TypeGuard[Policy]:
    """Return whether the kernels know this network: the paper's, with the light local policy. Torch knows them all."""
    from elgo.model.ensemble import Policy
    from elgo.model.global_policy import GlobalPolicy

    known = isinstance(policy, Policy) and (policy.global_ is None or type(policy.global_) is GlobalPolicy)
    return known and policy.config.compiled


def as_weights(model: Model) -> Weights | None:
    """Return a model as the kernels take it; None if it is a network that they do not know, or not on the CPU."""
    if isinstance(model, Weights):
        return model if model.config.compiled else None
    if model.device.type != "cpu" or not supports(model):
        return None
    tensors = {name: value.detach().float().contiguous().numpy() for name, value in model.state_dict().items()}
    return Weights(model.config, tensors)


def as_arrays(encoding: TorchEncoding) -> list[Encoding]:
    """Return an encoding in torch as arrays, one for each task."""
    keys, values = (x.transpose(1, 2).flatten(2) for x in (encoding.keys, encoding.values))
    tensors = (encoding.query_last, encoding.query_first, keys, values, encoding.readout, encoding.offset)
    none = [None] * len(keys)
    arrays: list[Any] = [none if x is None else x.detach().float().contiguous().numpy() for x in tensors]
    return [Encoding(*own) for own in zip(*arrays, strict=True)]


def table_bytes(config: PolicyConfig, n: int) -> float:
    """Return the size of the N x N factors of the glimpse."""
    return 4.0 * len(part_heads(config.heads, config.width // config.heads)) * n * n


def task_bytes(config: PolicyConfig, n: int, with_table: bool) -> float:
    """Return the memory of one task: factors of the glimpse, lists, embeddings."""
    lists = 16.0 * n * min(n, LIST_LIMIT)
    if not config.global_policy:
        return lists
    table = table_bytes(config, n) if with_table else 0.0
    return table + lists + 40.0 * n * config.width


def roll_out(
    weights: Weights,
    requests: Sequence[Request],
    with_table: bool,
    threads: int,
    on_steps: Callable[[float], None],
    on_rollouts: Callable[[Actions], None],
    encodings: Sequence[Encoding] | None,
) -> list[Rollouts]:
    """Return actions and confidence (M, T) of tasks of one size, which may have been encoded before.

    `on_steps` is told of all steps made so far, `on_rollouts` has those that are done.
    """
    config, local = kernel_config(weights.config), local_tables(weights)
    made = [new_rollouts(request) for request in requests]
    size = max(1, min(BLOCK, -(-sum(len(request.starts) for request in requests) // threads)))
    blocks = [(i, rows) for i, request in enumerate(requests) for rows in _slices(len(request.starts), size)]
    controls, stop = np.zeros((len(blocks), 2), np.int64), np.zeros(1, np.int64)
    tables: dict[int, tuple[NeighbourLists, GlobalTables]] = {}

    def make_tables(part: slice) -> None:
        tasks = [request.task for request in requests[part]]
        lists = [neighbour_lists(task.coords, config.has_depot, config.euclidean) for task in tasks]
        if not config.use_global:
            own = [no_global_tables(task.size) for task in tasks]
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # of weights that make no sense: kernels survive NaN
                encoded = encodings[part] if encodings else encode_batch(weights, tasks, stop)
                own = [global_tables(weights, encoding, with_table) for encoding in encoded]
        tables.update(zip(range(part.start, part.stop), zip(lists, own, strict=True), strict=True))

    def run(part: slice) -> None:
        for number in range(part.start, part.stop):
            i, rows = blocks[number]
            task, starts, uniforms = requests[i]
            demands = Demands(np.zeros(0, np.int64) if task.demand is None else task.demand, task.capacity or 0)
            block = Block(starts[rows], uniforms[rows], made[i].actions[rows], made[i].confidence[rows])
            lists, own = tables[i]
            run_block(own, local, lists, config, demands, block, controls[number])
            if not controls[number, 1]:  # else it was stopped before its end
                on_rollouts(block.actions)

    def report() -> None:
        on_steps(float(sum(controls[j, 0] * (rows.stop - rows.start) for j, (_, rows) in enumerate(blocks))))

    # The blocks are what runs in parallel: within them, BLAS may not start more threads.
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        try:
            together = max(1, min(ENCODED_ROWS // requests[0].task.size, -(-len(requests) // threads)))
            _finish([pool.submit(make_tables, part) for part in _slices(len(requests), together)], report)
            together = max(1, size * len(blocks) // sum(len(request.starts) for request in requests))
            _finish([pool.submit(run, part) for part in _slices(len(blocks), together)], report)
        finally:  # on an interrupt the kernels stop at their next step
            stop[0] = controls[:, 1] = 1
            pool.shutdown(cancel_futures=True)
    return made


def _finish(jobs: Sequence[Future[None]], report: Callable[[], None]) -> None:
    """Wait for the jobs, and report while they run; raise what one of them raised."""
    while wait(jobs, timeout=0.1).not_done:
        report()
    for job in jobs:
        job.result()


def _slices(count: int, size: int) -> list[slice]:
    """Cut range(count) into nearly equal slices of at most `size`."""
    pieces = -(-count // size)
    edges = [count * i // pieces for i in range(pieces + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
