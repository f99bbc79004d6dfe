"""Batches for training. A batch is a pure function of the seed and the step, so a resumed run sees the same data."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from elgo.problem.generate import generate
from elgo.problem.task import ProblemName, Task
from elgo.train.config import Config, DataConfig
from elgo.train.label_store import LabelStore, read_xml100
from elgo.train.label_stream import LabelStream, parse_sizes
from elgo.train.labelling import Labelled, as_task

FLUSH_SECONDS = 3.0  # between writes of freshly made labels: few large files, and no long wait
AHEAD = 100  # groups to label in advance


def step_rng(seed: int, step: int, purpose: int = 0) -> np.random.Generator:
    """The only randomness of a step; resuming needs no saved generator."""
    return np.random.default_rng([seed, step, purpose])


def some_steps(first: int, end: int, count: int, rng: np.random.Generator) -> Tensor:
    """`count` of the steps first..end-1, without repetition; all of them if count is 0 or too large."""
    steps = np.arange(first, end)
    return torch.from_numpy(rng.choice(steps, count, replace=False) if 0 < count < len(steps) else steps)


def batch_size(config: DataConfig, nodes: int) -> int:
    """Instances of `nodes` nodes that make a batch."""
    return min(config.batch, max(1, config.nodes // nodes)) if config.nodes else config.batch


def random_tasks(problem: ProblemName, config: DataConfig, distribution: str, rng: np.random.Generator) -> list[Task]:
    """A batch of unlabelled instances of one size."""
    ranges = parse_sizes(config.sizes)
    low, high = ranges[rng.integers(len(ranges))]
    customers = int(rng.integers(low, high + 1))
    samples = [generate(rng, problem, customers, distribution) for _ in range(batch_size(config, customers))]
    return [as_task(sample) for sample in samples]


class LabelSource(Protocol):
    """Gives the labelled instances of a step."""

    def batch(self, step: int) -> list[Labelled]: ...

    def close(self) -> None: ...


class StoredLabels:
    """Labels that are there already: each step takes instances of similar size, starting from a random one."""

    def __init__(self, labels: Sequence[Labelled], config: DataConfig, seed: int) -> None:
        if not labels:
            raise ValueError("data.labels has no labelled instances yet")
        self.labels = sorted(labels, key=lambda label: label.sample.size)
        self.sizes = np.array([label.sample.size for label in self.labels])
        self.config, self.seed = config, seed

    def batch(self, step: int) -> list[Labelled]:
        rng = step_rng(self.seed, step)
        size = int(self.sizes[rng.integers(len(self.labels))])
        count = min(batch_size(self.config, size), len(self.labels))
        # A window around all instances of about this size, so that a large class is not always cut at its edge.
        low, high = np.searchsorted(self.sizes, [size * 0.95, size * 1.05])
        inside = np.arange(low, max(high, low + 1))
        return [self.labels[i] for i in rng.choice(inside, count, replace=count > len(inside))]

    def close(self) -> None:
        pass


class FreshLabels:
    """Labels made on the fly by a background process into a store of the run, and replayed from it.

    Every `reuse`-th step takes the next new batch, waiting for it if need be; the steps between take earlier ones.
    Of several processes with one store, only one is `writing`.
    """

    def __init__(self, folder: Path, groups: Groups, writing: bool = True) -> None:
        self.config, self.seed = groups.config, groups.stream.seed
        self.groups = groups
        self.store = LabelStore(folder)
        self.loaded: list[Labelled] = []
        context = multiprocessing.get_context("spawn")
        self.wanted = context.Value("q", 0)  # the newest group that training has asked for
        work = (self.store, self.groups, self.wanted, os.getpid())
        self.process = context.Process(target=_fill, args=work, daemon=True) if writing else None
        if self.process is not None:
            self.process.start()

    def batch(self, step: int) -> list[Labelled]:
        newest = step // self.config.reuse
        group = newest if step % self.config.reuse == 0 else int(step_rng(self.seed, step).integers(newest + 1))
        self.wanted.value = newest
        begin, end = self.groups.place(group)
        while len(self.loaded) < end:
            self.loaded += self.store.load(len(self.loaded))
            if len(self.loaded) < end:
                if self.process is not None and not self.process.is_alive():
                    raise ChildProcessError("the process that labels instances has ended")
                time.sleep(0.2)
        return self.loaded[begin:end]

    def close(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.join()


class Groups:
    """Batches of equal size in an endless stream, one behind the other in a store."""

    def __init__(self, problem: ProblemName, config: DataConfig, seed: int) -> None:
        self.config = config
        self.stream = LabelStream(problem, parse_sizes(config.sizes), config.distribution, seed, group=config.batch)
        self.ends = [0]

    def place(self, group: int) -> tuple[int, int]:
        """Where in the store the labels of a group begin and end."""
        while len(self.ends) < group + 2:
            nodes = self.stream.size((len(self.ends) - 1) * self.config.batch)
            self.ends.append(self.ends[-1] + batch_size(self.config, nodes))
        return self.ends[group], self.ends[group + 1]

    def labelled(self, group: int) -> list[Labelled]:
        begin, end = self.place(group)
        numbers = range(group * self.config.batch, group * self.config.batch + end - begin)
        return [self.stream.labelled(number) for number in numbers]


def _fill(store: LabelStore, groups: Groups, wanted: Synchronized[int], parent: int) -> None:
    """Label group after group into the store, from where it ends, a little ahead of the parent while it lives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
    held, group = len(store), 0
    while groups.place(group)[1] <= held:
        group += 1
    fresh = groups.labelled(group)[held - groups.place(group)[0] :]
    written = -FLUSH_SECONDS  # the first group at once: the parent waits for it
    while os.getppid() == parent:
        if time.monotonic() - written > FLUSH_SECONDS:
            store.add(fresh)
            fresh, written = [], time.monotonic()
        if group < wanted.value + AHEAD:
            group += 1
            fresh += groups.labelled(group)
        else:
            time.sleep(0.1)


def check_labels(config: Config) -> None:
    """ValueError if a label file or store of the config is not there: before anything that takes long."""
    for name in config.data.labels:
        if not (Path(name).is_file() if name.endswith(".npz") else len(LabelStore(Path(name)))):
            raise ValueError(f"{name}: data.labels names no labelled instances")


def label_source(config: Config, run: Path, writing: bool = True) -> LabelSource:
    """The labels that the config names, or those that a process makes into the run's folder."""
    problem, data, seed = config.policy.problem, config.data, config.train.seed
    if not data.labels:
        return FreshLabels(run / "labels", Groups(problem, data, seed), writing)
    check_labels(config)
    labels: list[Labelled] = []
    for name in data.labels:
        found = read_xml100(Path(name)) if name.endswith(".npz") else LabelStore(Path(name)).load()
        if found[0].sample.problem != problem:
            raise ValueError(f"{name}: data.labels are for {found[0].sample.problem!r}, policy.problem is {problem!r}")
        labels += found
    return StoredLabels(labels, data, seed)
