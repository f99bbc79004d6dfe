"""The instances of a step: random ones, labelled ones from stores, or ones labelled on the fly by a background process.

They follow from the seed and the step alone, so a resumed run sees the same data.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import numpy as np

from elgo.model.config import PolicyConfig
from elgo.problem.augment import normalise_task
from elgo.problem.errors import ElgoError
from elgo.problem.generate import generate
from elgo.problem.task import ProblemName, Task
from elgo.train.config import Config, DataConfig, ImitationConfig
from elgo.train.labelling import Labelled, LabelStream, parse_sizes
from elgo.train.labels import LabelStore, claim, read_xml100

FLUSH_SECONDS = 3.0  # between writes of new labels: few large files, and no long wait
AHEAD = 100  # batches to label in advance


def step_rng(seed: int, step: int, purpose: int = 0) -> np.random.Generator:
    """Return the generator for one purpose in a step; no other randomness exists, so resuming needs no saved state."""
    return np.random.default_rng([seed, step, purpose])


def batch_size(config: DataConfig, nodes: int) -> int:
    """Return how many instances of `nodes` nodes make a batch."""
    return min(config.batch, max(1, config.nodes // nodes)) if config.nodes else config.batch


def random_tasks(policy: PolicyConfig, config: DataConfig, distribution: str, rng: np.random.Generator) -> list[Task]:
    """Return a batch of unlabelled instances of one size."""
    ranges = parse_sizes(config.sizes)
    low, high = ranges[rng.integers(len(ranges))]
    customers = int(rng.integers(low, high + 1))
    samples = [generate(rng, policy.problem, customers, distribution) for _ in range(batch_size(config, customers))]
    return [normalise_task(sample, policy.normalisation) for sample in samples]


class StoredLabels:
    """Existing labels: each step takes instances of similar size, starting from a random one."""

    def __init__(self, names: Sequence[str], problem: ProblemName, config: DataConfig, seed: int) -> None:
        """Open label stores (folders) or files of the XML100 set (.npz); `use` reads the labels."""
        self.problem, self.config, self.seed = problem, config, seed
        self.stores = {name: LabelStore(Path(name)) for name in names if not name.endswith(".npz")}
        self.loaded = {name: read_xml100(Path(name)) if name.endswith(".npz") else [] for name in names}
        self.used: tuple[int, ...] | None = None

    def counts(self) -> tuple[int, ...]:
        """Return how many labels each store holds by now."""
        return tuple(len(store) for store in self.stores.values())

    def use(self, counts: tuple[int, ...]) -> None:
        """Take batches from so many labels of each store, reading only those that are new."""
        if counts == self.used:
            return
        self.used = counts
        for (name, store), count in zip(self.stores.items(), counts, strict=True):
            held = self.loaded[name]
            self.loaded[name] = (held + store.load(len(held)) if len(held) < count else held)[:count]
        for name, labels in self.loaded.items():
            found = labels[0].sample.problem
            if found != self.problem:
                raise ElgoError(f"{name}: imitate.labels are for {found!r}, policy.problem is {self.problem!r}")
        self.labels = sorted(itertools.chain(*self.loaded.values()), key=lambda label: label.sample.size)
        self.sizes = np.array([label.sample.size for label in self.labels])

    def batch(self, step: int) -> list[Labelled]:
        """Return the labelled instances of a step."""
        rng = step_rng(self.seed, step)
        size = int(self.sizes[rng.integers(len(self.labels))])
        count = min(batch_size(self.config, size), len(self.labels))
        # All instances of about this size: otherwise a large class would always be cut at its edge.
        low, high = np.searchsorted(self.sizes, [size * 0.95, size * 1.05])
        similar = np.arange(low, max(high, low + 1))
        return [self.labels[i] for i in rng.choice(similar, count, replace=count > len(similar))]

    def close(self) -> None:
        """Nothing runs in the background."""


class BatchStream:
    """Batches of instances of one size in an endless stream, one after the other in a store."""

    def __init__(self, problem: ProblemName, config: DataConfig, seed: int) -> None:
        self.config = config
        self.stream = LabelStream(problem, parse_sizes(config.sizes), config.distribution, seed, group=config.batch)
        self.ends = [0]

    def place(self, number: int) -> tuple[int, int]:
        """Return where in the store the labels of a batch begin and end."""
        while len(self.ends) < number + 2:
            nodes = self.stream.size((len(self.ends) - 1) * self.config.batch)
            self.ends.append(self.ends[-1] + batch_size(self.config, nodes))
        return self.ends[number], self.ends[number + 1]

    def labelled(self, number: int) -> list[Labelled]:
        """Label the instances of a batch."""
        begin, end = self.place(number)
        first = number * self.config.batch
        return [self.stream.labelled(index) for index in range(first, first + end - begin)]


class FreshLabels:
    """Labels made on the fly by a background process, kept in a store of the run and reused from it.

    Every `reuse`-th step takes the next new batch, and waits for it if need be; the steps between take earlier ones.
    Of several training processes with one store, only one is `writing`.
    """

    def __init__(self, folder: Path, batches: BatchStream, reuse: int, writing: bool = True) -> None:
        self.batches, self.reuse, self.seed = batches, reuse, batches.stream.seed
        self.store = LabelStore(folder)
        if writing:
            claim(self.store, batches.stream)
        self.loaded: list[Labelled] = []
        context = multiprocessing.get_context("spawn")
        self.newest = context.Value("q", 0)  # the newest batch that training has asked for
        work = (self.store, self.batches, self.newest, os.getpid())
        self.process = context.Process(target=_fill, args=work, daemon=True) if writing else None
        if self.process is not None:
            self.process.start()

    def batch(self, step: int) -> list[Labelled]:
        """Return the labelled instances of a step, once they are there."""
        newest = step // self.reuse
        number = newest if step % self.reuse == 0 else int(step_rng(self.seed, step).integers(newest + 1))
        self.newest.value = newest
        begin, end = self.batches.place(number)
        while len(self.loaded) < end:
            self.loaded += self.store.load(len(self.loaded))
            if len(self.loaded) < end:
                if self.process is not None and not self.process.is_alive():
                    raise ChildProcessError("the process that labels instances has ended")
                time.sleep(0.2)
        return self.loaded[begin:end]

    def close(self) -> None:
        """End the process that labels instances."""
        if self.process is not None:
            self.process.terminate()
            self.process.join()


LabelSource = StoredLabels | FreshLabels


def _fill(store: LabelStore, batches: BatchStream, newest: Synchronized[int], parent: int) -> None:
    """Label batch after batch into the store, continuing where it ends, up to AHEAD of what the parent needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends this process
    held, number = len(store), 0
    while batches.place(number)[1] <= held:
        number += 1
    fresh = batches.labelled(number)[held - batches.place(number)[0] :]
    written = -FLUSH_SECONDS  # the first batch at once: the parent waits for it
    while os.getppid() == parent:
        if time.monotonic() - written > FLUSH_SECONDS:
            store.add(fresh)
            fresh, written = [], time.monotonic()
        if number < newest.value + AHEAD:
            number += 1
            fresh += batches.labelled(number)
        else:
            time.sleep(0.1)


def check_labels(config: Config) -> None:
    """Raise ElgoError if the config names labels that do not exist, or stores of different generator versions."""
    names = config.method.labels if isinstance(config.method, ImitationConfig) else ()
    for name in names:
        if not (Path(name).is_file() if name.endswith(".npz") else len(LabelStore(Path(name)))):
            raise ElgoError(f"{name}: imitate.labels names no labelled instances")
    versions = {name: LabelStore(name).generator_version for name in names if not name.endswith(".npz")}
    if len(set(versions.values())) > 1:
        found = ", ".join(f"{name} (version {version})" for name, version in versions.items())
        raise ElgoError(f"imitate.labels mixes stores of different generator versions: {found}")


def label_source(config: Config, options: ImitationConfig, folder: Path, writing: bool = True) -> LabelSource:
    """Return the labels that the config names, or those that a new process makes into the folder."""
    problem, data, seed = config.policy.problem, config.data, config.train.seed
    if not options.labels:
        return FreshLabels(folder, BatchStream(problem, data, seed), options.reuse, writing)
    check_labels(config)
    return StoredLabels(options.labels, problem, data, seed)
