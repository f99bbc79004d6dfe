"""Policy + tasks + starts -> complete rollouts, greedy or sampled, within a memory limit.

The plain path steps through `Policy.scores` in torch and runs on any device with any config. On a CPU, `elgo.decode.compiled` makes
the same tours from tables and compiled kernels. Both draw the same uniform numbers, so they also sample the same tours.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.problem.task import Task

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

    from elgo.decode.compiled import Plane

Actions = NDArray[np.int32]  # (M, T): a TSP tour, or a CVRP tour with the depot's 0 between routes and behind the end
Certainty = NDArray[np.float32]  # (M, T)
Progress = Callable[[float], None]
Kernel = Callable[[slice, Actions, Certainty, NDArray[np.int64]], None]

T = TypeVar("T", bound=np.generic)

BLOCK = 128  # most rollouts in one kernel call: enough for BLAS, few enough for the cache
GROUP = 64  # most tasks encoded at once


@dataclass(frozen=True)
class DecodeConfig:
    """How to decode, not what: no field changes which tours come out (beyond ties in floating point)."""

    path: Literal["auto", "fast", "plain"] = "auto"
    threads: int | None = None  # default: all cores that this process may use
    memory_gb: float = 4.0  # what tables and states may take together

    def __post_init__(self) -> None:
        if self.path not in ("auto", "fast", "plain"):
            raise ValueError(f"path is {self.path!r}, must be auto, fast or plain")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads is {self.threads}, must be at least 1")
        if self.memory_gb <= 0:
            raise ValueError(f"memory_gb is {self.memory_gb}, must be positive")

    @property
    def memory(self) -> float:
        """The memory limit in bytes."""
        return self.memory_gb * 2**30

    @property
    def workers(self) -> int:
        return self.threads or len(os.sched_getaffinity(0))


DEFAULT = DecodeConfig()


def decode(
    policy: Policy,
    tasks: Sequence[Task],
    starts: Sequence[NDArray[np.int64]],
    config: DecodeConfig = DEFAULT,
    rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    on_progress: Progress | None = None,
    certainty: list[Certainty] | None = None,
) -> list[Actions]:
    """Roll out `starts[i]` (M_i,) of each task; greedy, or sampled when a generator is given, or one for each task.

    Tasks may differ in size. Gives (M_i, T_i) node indices per task, the start first. A list `certainty` is filled with the highest probability that a node had at each sampled
    move (M_i, T_i); 0 for the start, and for greedy moves.
    """
    from elgo.decode import compiled as fast

    fits = policy.device.type == "cpu" and fast.supports(policy.config)
    if config.path == "fast" and not fits:
        raise ValueError("path is 'fast', but the kernels know only the light local policy, on the CPU")
    use_fast = config.path != "plain" and fits
    rngs = rng if isinstance(rng, Sequence) else [rng] * len(tasks)
    for task, first in zip(tasks, starts, strict=True):
        check_starts(task, first)
    uniforms = [_uniforms(task, len(m), own) for task, m, own in zip(tasks, starts, rngs, strict=True)]
    report = _Reporter(tasks, starts, on_progress)
    out: list[Rollouts] = [(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))] * len(tasks)
    with torch.inference_mode(), torch_threads(config.workers):
        for chosen in _groups(policy, tasks, starts, config, use_fast):
            part = [(tasks[i], starts[i], uniforms[i]) for i in chosen]
            made = (_fast if use_fast else _plain)(policy, part, config, report)
            for i, rollouts in zip(chosen, made, strict=True):
                out[i] = rollouts
    if certainty is not None:
        certainty[:] = [sure for _, sure in out]
    return [actions for actions, _ in out]


def check_starts(task: Task, starts: NDArray[np.int64]) -> None:
    """Raise ValueError unless rollouts can begin at these nodes: the kernels trust them."""
    low, high = (0 if task.demand is None else 1), len(task.coords) - 1
    if starts.size == 0 or starts.min() < low or starts.max() > high:
        raise ValueError(f"starts are {starts.tolist()[:5]}..., must be nodes {low}..{high}, and at least one")


def longest(task: Task) -> int:
    """Most actions that a rollout of this task can take."""
    return len(task.coords) if task.demand is None else 2 * (len(task.coords) - 1)


def _uniforms(task: Task, rollouts: int, rng: np.random.Generator | None) -> NDArray[np.float32]:
    """(M, T) numbers that decide a sampled rollout; (0, 0) for a greedy one."""
    if rng is None:
        return np.empty((0, 0), np.float32)
    return rng.random((rollouts, longest(task)), dtype=np.float32)


class _Reporter:
    """Turns finished steps into a fraction of all steps, for one callback."""

    def __init__(self, tasks: Sequence[Task], starts: Sequence[NDArray[np.int64]], callback: Progress | None) -> None:
        self.total = sum(len(m) * len(task.coords) ** 2 for task, m in zip(tasks, starts, strict=True))
        self.callback, self.done, self.shown = callback, 0.0, 0.0

    def __call__(self, running: float = 0.0, finished: float = 0.0) -> None:
        self.done += finished
        if self.callback is not None:
            # A CVRP rollout may take more than N steps: never step back when its end is counted as N.
            self.shown = max(self.shown, min(1.0, (self.done + running) / self.total))
            self.callback(self.shown)


Rollouts = tuple[Actions, Certainty]
Part = tuple[Task, NDArray[np.int64], NDArray[np.float32]]


def _groups(
    policy: Policy,
    tasks: Sequence[Task],
    starts: Sequence[NDArray[np.int64]],
    config: DecodeConfig,
    use_fast: bool,
) -> Iterator[list[int]]:
    """Indices of tasks to work on together: of equal size on the fast path, as many as memory allows."""

    def kind(i: int) -> int:
        return len(tasks[i].coords) if use_fast else 0

    order = sorted(range(len(tasks)), key=lambda i: (kind(i), len(tasks[i].coords)))
    for _, members in groupby(order, key=kind):
        group: list[int] = []
        used = 0.0
        for i in members:
            n = len(tasks[i].coords)
            need = _fast_bytes(policy, n, config) if use_fast else len(starts[i]) * _plain_bytes(policy, n)
            if group and (len(group) == GROUP or used + need > config.memory / 2):
                yield group
                group, used = [], 0.0
            group.append(i)
            used += need
        if group:
            yield group


def _table_bytes(policy: Policy, n: int) -> float:
    return 4.0 * policy.config.heads * n * n


def _has_table(policy: Policy, n: int, config: DecodeConfig) -> bool:
    return 3 * _table_bytes(policy, n) <= config.memory


def _fast_bytes(policy: Policy, n: int, config: DecodeConfig) -> float:
    """Tables of one task: factors of the glimpse (a second copy while they are made), neighbour lists, embeddings."""
    from elgo.decode.compiled import LIST_LIMIT

    lists = 16.0 * n * min(n, LIST_LIMIT)
    if not policy.config.global_policy:
        return lists
    table = 2 * _table_bytes(policy, n) if _has_table(policy, n, config) else 0.0
    return table + lists + 40.0 * n * policy.config.width


def _plain_bytes(policy: Policy, n: int) -> float:
    """One rollout's share of a torch step: attention per head, and about a dozen rows of 8 bytes."""
    return n * (12.0 * policy.config.heads + 100.0)


# --- plain path ------------------------------------------------------------------------------------------------------


def _plain(policy: Policy, parts: Sequence[Part], config: DecodeConfig, report: _Reporter) -> list[Rollouts]:
    """Tasks of any sizes in one padded batch; the starts in chunks that fit into memory."""
    device = policy.device
    batch = make_batch([task for task, _, _ in parts]).to(device)
    encoded = policy.encode(batch)
    most = max(len(starts) for _, starts, _ in parts)
    n = batch.coords.shape[1]
    width = max(1, int(config.memory / 2 / (len(parts) * _plain_bytes(policy, n))))
    pieces: list[list[Actions]] = [[] for _ in parts]
    doubts: list[list[Certainty]] = [[] for _ in parts]
    for begin in range(0, most, width):
        # A task with fewer starts repeats its last one; the surplus is cut off below.
        rows = [np.arange(begin, min(begin + width, most)).clip(max=len(starts) - 1) for _, starts, _ in parts]
        first = np.stack([starts[row] for (_, starts, _), row in zip(parts, rows, strict=True)])
        actions, sure = [torch.from_numpy(first).to(device)], [torch.zeros(first.shape)]
        state = policy.env.start(batch, actions[0])
        while not bool(policy.env.finished(batch, state).all()):
            scores, closed = policy.scores(encoded, state)
            if parts[0][2].size:
                drawn = [_column(uniform, row, len(actions)) for (_, _, uniform), row in zip(parts, rows, strict=True)]
                logits = torch.add(closed, scores.tanh(), alpha=policy.config.clip)
                sure.append(logits.softmax(-1).amax(-1).cpu())
                chosen = invert(logits, torch.from_numpy(np.stack(drawn)).to(device))
            else:
                sure.append(torch.zeros(first.shape))
                chosen = (scores + closed).argmax(-1)
            state = policy.env.step(batch, state, chosen)
            actions.append(chosen)
            report(running=len(actions) * len(parts) * first.shape[1] * n)
        report(finished=len(parts) * first.shape[1] * n * n)
        made = torch.stack(actions, dim=2).int().cpu().numpy()  # (B, M, T)
        for i, (task, starts, _) in enumerate(parts):
            own = slice(max(0, len(starts) - begin))
            pieces[i].append(made[i, own, : longest(task)])
            doubts[i].append(torch.stack(sure, dim=2).float().numpy()[i, own, : longest(task)])
    return [_trim(_stack(piece), _stack(doubt)) for piece, doubt in zip(pieces, doubts, strict=True)]


def _column(uniform: NDArray[np.float32], rows: NDArray[np.int64], step: int) -> NDArray[np.float32]:
    """The numbers of one step; a task that is done while others go on needs none."""
    return uniform[rows, step] if step < uniform.shape[1] else np.zeros(len(rows), np.float32)


def invert(logits: Tensor, uniform: Tensor) -> Tensor:
    """(B, M) nodes drawn from softmax(logits) (B, M, N) by inverting the distribution at uniform (B, M)."""
    mass = logits.double().softmax(-1).cumsum(-1)
    return torch.searchsorted(mass, (uniform * mass[..., -1])[..., None].contiguous(), right=True).squeeze(-1)


def _stack(pieces: Sequence[NDArray[T]]) -> NDArray[T]:
    """Join chunks of rollouts (M_j, T_j); the shorter ones stay at the depot (in TSP all are equally long)."""
    width = max(piece.shape[1] for piece in pieces)
    return np.concatenate([np.pad(piece, ((0, 0), (0, width - piece.shape[1]))) for piece in pieces])


def _trim(actions: Actions, certainty: Certainty) -> Rollouts:
    """Without the columns in which every rollout (CVRP) only waits at the depot after its last return."""
    last = np.flatnonzero(actions.any(axis=0)).max()
    return actions[:, : last + 2].copy(), certainty[:, : last + 2].copy()  # so that the long arrays can go


# --- fast path -------------------------------------------------------------------------------------------------------


def _fast(policy: Policy, parts: Sequence[Part], config: DecodeConfig, report: _Reporter) -> list[Rollouts]:
    """Tasks of one size: blocks of rollouts on a pool of threads."""
    from elgo.decode import compiled as fast

    n, depot, euclidean = len(parts[0][0].coords), policy.env.has_depot, policy.config.coordinates == "euclidean"
    ends = np.cumsum([len(starts) for _, starts, _ in parts])
    out = np.zeros((ends[-1], longest(parts[0][0])), np.int32)  # the rollouts of all tasks, one behind the other
    sure = np.zeros(out.shape, np.float32)
    size = max(1, min(BLOCK, -(-len(out) // config.workers)))
    blocks = [slice(a + part.start, a + part.stop) for a, b in pairwise([0, *ends]) for part in _slices(b - a, size)]
    controls = np.zeros((len(blocks), 2), np.int64)
    # The blocks are what runs in parallel: within them, neither BLAS nor torch may start more threads.
    with one_blas_thread(), ThreadPoolExecutor(config.workers) as pool:
        planes = list(pool.map(lambda part: fast.plane(part[0].coords, depot, euclidean), parts))
        kernel = _kernel(policy, parts, planes, config)
        with torch_threads(1):
            jobs = [pool.submit(kernel, rows, out[rows], sure[rows], controls[i]) for i, rows in enumerate(blocks)]
            try:
                while wait(jobs, timeout=0.1).not_done:
                    steps = sum(controls[j, 0] * (rows.stop - rows.start) for j, rows in enumerate(blocks))
                    report(running=float(steps) * n)
                for done in jobs:
                    done.result()
            finally:  # on an interrupt the kernels stop at their next step
                controls[:, 1] = 1
                pool.shutdown(cancel_futures=True)
    report(finished=len(out) * n * n)
    return [_trim(*rollouts) for rollouts in zip(np.split(out, ends[:-1]), np.split(sure, ends[:-1]), strict=True)]


def _kernel(policy: Policy, parts: Sequence[Part], planes: Sequence[Plane], config: DecodeConfig) -> Kernel:
    """The paper's network: tables in torch, everything else in one compiled function."""
    from elgo.decode import compiled as fast

    batch = make_batch([task for task, _, _ in parts])
    tables = fast.global_tables(policy, policy.encode(batch), _has_table(policy, batch.coords.shape[1], config))
    local, rule = fast.local_tables(policy), fast.rules(policy.config)
    ends = np.cumsum([len(starts) for _, starts, _ in parts])

    def run(rows: slice, out: Actions, sure: Certainty, control: NDArray[np.int64]) -> None:
        i = int(np.searchsorted(ends, rows.start, side="right"))
        task, starts, uniform = parts[i]
        own = slice(rows.start - (ends[i] - len(starts)), rows.stop - (ends[i] - len(starts)))
        demand = np.zeros(0, np.int64) if task.demand is None else task.demand
        capacity = task.capacity or 0
        fast.run_block(
            tables[i], local, planes[i], rule, demand, capacity, starts[own], uniform[own], out, sure, control
        )  # fmt: skip

    return run


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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """The kernels call BLAS from several threads of their own, so BLAS must not start more."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def keep_freed_memory() -> None:
    """Ask glibc to keep freed blocks of up to 64 MB for the next tensor, instead of returning and clearing them.

    Networks that allocate many middle-sized tensors run up to 1.5 times as fast. Elsewhere this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 2**26)  # M_MMAP_THRESHOLD
        mallopt(-1, 2**28)  # M_TRIM_THRESHOLD


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
