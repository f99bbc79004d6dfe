"""The compiled path of decoding on a CPU: blocks of rollouts on a pool of threads, from tables made once per task.

It makes the rollouts of `elgo.model.rollout`: tests compare every kernel with torch. The kernels' modules explain what
makes it fast; benchmarks/decode.py measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from elgo.decode.global_kernels import part_heads
from elgo.decode.local_kernels import LIST_LIMIT, neighbour_lists
from elgo.decode.rollout_kernel import Block, Demands, run_block
from elgo.decode.types import Request, Rollouts, new_rollouts
from elgo.model.config import PolicyConfig

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

    from elgo.model.ensemble import Policy
    from elgo.model.global_policy import Encoding
    from elgo.model.protocols import PolicyLike

BLOCK = 128  # most rollouts in one kernel call: enough for BLAS, few enough for the cache


def supports(policy: PolicyLike) -> TypeGuard[Policy]:
    """Return whether the kernels know this network: the paper's, with the light local policy. Torch knows them all."""
    from elgo.model.ensemble import Policy
    from elgo.model.global_policy import GlobalPolicy

    known = isinstance(policy, Policy) and (policy.global_ is None or type(policy.global_) is GlobalPolicy)
    return known and policy.config.local_layers == 0


def table_bytes(config: PolicyConfig, n: int) -> float:
    """Return the size of the N x N factors of the glimpse."""
    return 4.0 * len(part_heads(config.heads, config.width // config.heads)) * n * n


def task_bytes(config: PolicyConfig, n: int, with_table: bool) -> float:
    """Return the memory of one task: factors of the glimpse (a second copy while they are made), lists, embeddings."""
    lists = 16.0 * n * min(n, LIST_LIMIT)
    if not config.global_policy:
        return lists
    table = 2 * table_bytes(config, n) if with_table else 0.0
    return table + lists + 40.0 * n * config.width


def roll_out(
    policy: Policy,
    requests: Sequence[Request],
    with_table: bool,
    threads: int,
    on_steps: Callable[[float], None],
    encoding: Encoding | None,
) -> list[Rollouts]:
    """Return actions and confidence (M, T) of tasks of one size, which may have been encoded before.

    `on_steps` is told of all steps made so far.
    """
    from elgo.decode.tables import kernel_config, make_tables

    config, tasks = kernel_config(policy.config), [request.task for request in requests]
    made = [new_rollouts(request) for request in requests]
    size = max(1, min(BLOCK, -(-sum(len(request.starts) for request in requests) // threads)))
    blocks = [(i, rows) for i, request in enumerate(requests) for rows in _slices(len(request.starts), size)]
    controls = np.zeros((len(blocks), 2), np.int64)
    # The blocks are what runs in parallel: within them, BLAS may not start more threads.
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        lists = list(pool.map(lambda task: neighbour_lists(task.coords, config.has_depot, config.euclidean), tasks))
        tables, local = make_tables(policy, tasks if encoding is None else encoding, with_table, threads, pool)

        def run(number: int) -> None:
            i, rows = blocks[number]
            task, starts, uniforms = requests[i]
            demands = Demands(np.zeros(0, np.int64) if task.demand is None else task.demand, task.capacity or 0)
            block = Block(starts[rows], uniforms[rows], made[i].actions[rows], made[i].confidence[rows])
            run_block(tables[i], local, lists[i], config, demands, block, controls[number])

        jobs = [pool.submit(run, number) for number in range(len(blocks))]
        try:
            while wait(jobs, timeout=0.1).not_done:
                on_steps(float(sum(controls[j, 0] * (rows.stop - rows.start) for j, (_, rows) in enumerate(blocks))))
            for job in jobs:
                job.result()
        finally:  # on an interrupt the kernels stop at their next step
            controls[:, 1] = 1
            pool.shutdown(cancel_futures=True)
    return made


def _slices(count: int, size: int) -> list[slice]:
    """Cut range(count) into nearly equal slices of at most `size`."""
    pieces = -(-count // size)
    edges = [count * i // pieces for i in range(pieces + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401  the BLAS that the kernels call: it must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context that keeps BLAS to one thread: the kernels call it from several threads of their own."""
    return _controller().limit(limits=1, user_api="blas")
