"""Policy + tasks + starts -> complete rollouts, greedy or sampled, within a memory limit.

On a CPU, `elgo.decode.compiled` makes the rollouts from tables and compiled kernels; `elgo.model.rollout` makes the
same ones in torch, on any device with any config. Sampled ones differ: the compiled path takes one number per move from
the task's generator on the host, torch takes its noise from a generator on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, groupby
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from elgo.decode.types import Actions, Confidence, Request, Rollouts, longest, new_rollouts
from elgo.model.checkpoint import Model, Weights
from elgo.model.config import check_at_least, check_choice
from elgo.problem.cores import available_cores
from elgo.problem.errors import ElgoError
from elgo.problem.task import Task

if TYPE_CHECKING:
    from elgo.model.global_policy import Encoding
    from elgo.model.protocols import PolicyLike

OnProgress = Callable[[float], None]
OnRollouts = Callable[[Actions], None]

GROUP = 64  # most tasks encoded at once
LARGE = 10_000  # nodes above which a task may not take more than the memory limit


@dataclass(frozen=True)
class DecodeConfig:
    """How to decode, not what: no field changes which greedy tours come out (beyond ties in floating point)."""

    path: Literal["auto", "compiled", "torch"] = "auto"
    threads: int | None = None  # default: all cores that this process may use
    memory_gb: float = 4.0  # what tables and states may take together

    def __post_init__(self) -> None:
        check_choice(self, path=("auto", "compiled", "torch"))
        if self.threads is not None:
            check_at_least(self, threads=1)
        if self.memory_gb <= 0:
            raise ElgoError(f"memory_gb is {self.memory_gb}, must be positive")

    @property
    def memory(self) -> float:
        """The memory limit in bytes."""
        return self.memory_gb * 2**30

    @property
    def workers(self) -> int:
        return self.threads or available_cores()


DEFAULT = DecodeConfig()


def decode(
    policy: Model,
    tasks: Sequence[Task],
    starts: Sequence[NDArray[np.int64]],
    config: DecodeConfig = DEFAULT,
    rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    on_progress: OnProgress | None = None,
    encoding: Encoding | None = None,
    on_rollouts: OnRollouts | None = None,
) -> list[Rollouts]:
    """Return the rollouts of each task from its `starts` (M,): (M, T) node indices, the start first.

    They are greedy, or sampled when a generator is given, or one for each task. Tasks may differ in size. On the torch
    path one generator on the device serves all tasks; the first one given is its seed. The compiled path takes an
    encoding of the tasks that was made before, if they have one size. `on_rollouts` is called, on any thread, with
    rollouts that are done, which may end in superfluous zeros.
    """
    rngs = rng if isinstance(rng, Sequence) else [rng] * len(tasks)
    weights = compiled_weights(policy, config)
    requests = [_request(*given, draw=weights is not None) for given in zip(tasks, starts, rngs, strict=True)]
    report = _Reporter(requests, on_progress, on_rollouts or (lambda actions: None))
    out: dict[int, Rollouts] = {}
    if weights is not None:
        made = _compiled(weights, requests, config, report, encoding)
    else:
        assert not isinstance(policy, Weights)
        made = _torch(policy, requests, config, report, rngs)
    for chosen, rollouts in made:
        out |= {i: _trim(*own) for i, own in zip(chosen, rollouts, strict=True)}
    return [out[i] for i in range(len(tasks))]


def _request(task: Task, starts: NDArray[np.int64], rng: np.random.Generator | None, draw: bool) -> Request:
    """Return the request for rollouts; ElgoError unless they can begin at these nodes: the kernels trust them."""
    if starts.size == 0 or starts.min() < 0 or starts.max() >= task.size:
        raise ElgoError(f"starts are {starts.tolist()[:5]}..., must be nodes 0..{task.size - 1}, and at least one")
    shape = (len(starts), longest(task, starts)) if rng and draw else (0, 0)
    return Request(task, starts, rng.random(shape, dtype=np.float32) if rng else np.empty(shape, np.float32))


def compiled_weights(policy: Model, config: DecodeConfig = DEFAULT) -> Weights | None:
    """Return the weights of a policy whose rollouts the compiled path makes; None if torch makes them."""
    from elgo.decode.compiled import as_weights

    weights = None if config.path == "torch" else as_weights(policy)
    if weights is None and config.path == "compiled":
        raise ElgoError("path is 'compiled', but the kernels know only the paper's network, on the CPU")
    if weights is None and isinstance(policy, Weights):
        reason = "path is 'torch'" if config.path == "torch" else f"local_layers is {policy.config.local_layers}"
        raise ElgoError(f"{reason}, which needs the network in torch: load it with load_model")
    return weights


def use_compiled(policy: Model, config: DecodeConfig) -> bool:
    """Return whether the compiled path makes this policy's rollouts."""
    return compiled_weights(policy, config) is not None


class _Reporter:
    """Turns finished steps into a fraction of all steps, for one callback."""

    def __init__(self, requests: Sequence[Request], callback: OnProgress | None, on_rollouts: OnRollouts) -> None:
        self.total = sum(len(request.starts) * len(request.task.coords) ** 2 for request in requests)
        self.callback, self.done, self.shown = callback, 0.0, 0.0
        self.rollouts = on_rollouts

    def running(self, steps: float, n: int) -> None:
        """Report so many steps of rollouts of N nodes that are not finished."""
        if self.callback is not None:
            # A CVRP rollout may take more than N steps: never step back when its end is counted as N.
            self.shown = max(self.shown, min(1.0, (self.done + steps * n) / self.total))
            self.callback(self.shown)

    def finished(self, rollouts: int, n: int) -> None:
        """Report that rollouts of N nodes are finished."""
        self.done += rollouts * n * n
        self.running(0, n)


Groups = Iterator[tuple[list[int], list[Rollouts]]]  # requests by number, and their rollouts


def _compiled(
    weights: Weights,
    requests: Sequence[Request],
    config: DecodeConfig,
    report: _Reporter,
    encoding: Encoding | None,
) -> Groups:
    """Roll out tasks of equal size together by compiled kernels."""
    from elgo.decode import compiled

    encodings = compiled.as_arrays(encoding) if encoding is not None and weights.config.global_policy else None

    def by_size(i: int) -> int:
        return len(requests[i].task.coords)

    for n, members in groupby(sorted(range(len(requests)), key=by_size), key=by_size):
        with_table = 3 * compiled.table_bytes(weights.config, n) <= config.memory
        need = compiled.task_bytes(weights.config, n, with_table)
        if not with_table and need > config.memory and n > LARGE:
            least = f"{need / 2**30:.1f} GB"
            raise ElgoError(f"memory_gb is {config.memory_gb:g}, but {n} nodes need {least}")
        for chosen in _groups(members, cycle([need]), config.memory / 2):
            own = [requests[i] for i in chosen]
            on_steps = partial(report.running, n=n)
            given = None if encodings is None else [encodings[i] for i in chosen]
            yield chosen, compiled.roll_out(weights, own, with_table, config.workers, on_steps, report.rollouts, given)
            report.finished(sum(len(request.starts) for request in own), n)


def _torch(
    policy: PolicyLike,
    requests: Sequence[Request],
    config: DecodeConfig,
    report: _Reporter,
    rngs: Sequence[np.random.Generator | None],
) -> Groups:
    """Roll out tasks of any sizes in padded batches by torch; starts in chunks that fit into memory."""
    from elgo.model.rollout import device_generator, encode_tasks, rollout_arrays

    generator = device_generator(policy.device, rngs[0]) if rngs[0] else None
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].task.coords))
    needs = [_torch_bytes(policy, len(requests[i].task.coords), len(requests[i].starts)) for i in order]
    for chosen in _groups(order, needs, config.memory / 2):
        own = [requests[i] for i in chosen]
        n, most = max(len(request.task.coords) for request in own), max(len(request.starts) for request in own)
        encoding = encode_tasks(policy, [request.task for request in own], config.workers)
        lists = _torch_bytes(policy, n, 0)  # once per task, the rest per rollout
        room = config.memory / 2 / len(own) - lists
        width = max(1, int(room / (_torch_bytes(policy, n, 1) - lists)))
        made = [new_rollouts(request) for request in own]
        for begin in range(0, most, width):
            # A task with fewer starts repeats its last one; the surplus is cut off below.
            rows = [np.arange(begin, min(begin + width, most)).clip(max=len(request.starts) - 1) for request in own]
            first = np.stack([request.starts[row] for request, row in zip(own, rows, strict=True)])
            on_steps = partial(report.running, n=n)
            actions, confidence = rollout_arrays(policy, encoding, first, generator, config.workers, on_steps)
            report.finished(first.size, n)
            for i, whole in enumerate(made):
                rows_into = slice(begin, begin + width)
                count, columns = len(whole.actions[rows_into]), slice(min(whole.actions.shape[1], actions.shape[2]))
                whole.actions[rows_into, columns] = actions[i, :count, columns]  # a shorter rollout stays at node 0
                whole.confidence[rows_into, columns] = confidence[i, :count, columns]
                if count:
                    report.rollouts(whole.actions[rows_into])
        yield chosen, made


def _groups(order: Iterable[int], needs: Iterable[float], memory: float) -> Iterator[list[int]]:
    """Cut an order of requests, each of which needs so many bytes, into groups that fit into memory together."""
    group: list[int] = []
    used = 0.0
    for i, need in zip(order, needs, strict=False):
        if group and (len(group) == GROUP or used + need > memory):
            yield group
            group, used = [], 0.0
        group.append(i)
        used += need
    if group:
        yield group


def _torch_bytes(policy: PolicyLike, n: int, rollouts: int) -> float:
    """Return the memory of a task: neighbour lists, and for each rollout attention and a dozen rows of 8 bytes."""
    from elgo.model.neighbours import ALL_LISTS

    lists = 20.0 * n * n if n <= ALL_LISTS else 0.0
    return lists + rollouts * n * (12.0 * policy.config.heads + 100.0)


def _trim(actions: Actions, confidence: Confidence) -> Rollouts:
    """Cut off the columns in which every rollout (CVRP) only waits at the depot after its last return."""
    last = np.flatnonzero(actions.any(axis=0)).max()
    return Rollouts(actions[:, : last + 2].copy(), confidence[:, : last + 2].copy())  # so that the long arrays can go
