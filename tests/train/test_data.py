"""Instances as functions of seed and step: random ones, from stores, and from a process that labels on the fly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tiny import fill, simple_labels

from elgo.model.config import PolicyConfig
from elgo.problem.generate import GENERATOR_VERSION, generate
from elgo.problem.task import ProblemName
from elgo.train.config import Config, DataConfig, ImitationConfig, TrainConfig
from elgo.train.data import (
    BatchStream,
    FreshLabels,
    LabelSource,
    StoredLabels,
    batch_size,
    label_source,
    random_tasks,
    step_rng,
)
from elgo.train.labelling import Labelled, LabelStream
from elgo.train.labels import LabelStore, claim


def numbers(labels: list[Labelled]) -> list[bytes]:
    return [x.sample.coords.tobytes() + x.tour.tobytes() for x in labels]


# --- random instances


def test_batch_size_is_limited_by_nodes() -> None:
    config = DataConfig(batch=16, nodes=800)
    assert [batch_size(config, n) for n in (10, 50, 100, 300, 2000)] == [16, 16, 8, 2, 1]
    assert batch_size(DataConfig(batch=16), 2000) == 16


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_random_tasks(problem: str) -> None:
    policy, config = PolicyConfig(problem), DataConfig(sizes="8-12,30", batch=3)
    sizes = set()
    for step in range(30):
        tasks = random_tasks(policy, config, "cluster", step_rng(0, step))
        again = random_tasks(policy, config, "cluster", step_rng(0, step))
        assert len(tasks) == 3
        assert len({len(task.coords) for task in tasks}) == 1
        assert all(np.array_equal(a.coords, b.coords) for a, b in zip(tasks, again, strict=True))
        assert all(np.ptp(task.coords, axis=0).max() == pytest.approx(1) for task in tasks)
        sizes.add(len(tasks[0].coords) - (problem == "cvrp"))
    assert sizes == {8, 9, 10, 11, 12, 30}
    different = random_tasks(policy, DataConfig(sizes="8", batch=1), "cluster", step_rng(1, 0))
    assert not np.array_equal(different[0].coords[:8], tasks[0].coords[:8])


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_raw_tasks_are_the_instances_as_generated(problem: str) -> None:
    policy, config = PolicyConfig(problem, normalisation="raw"), DataConfig(sizes="20", batch=4)
    rng = step_rng(0, 0)
    rng.integers(1), rng.integers(20, 21)  # which size
    for task in random_tasks(policy, config, "uniform", step_rng(0, 0)):
        sample = generate(rng, problem, 20, "uniform")
        assert sample.coords.max() <= 1
        np.testing.assert_array_equal(task.coords, sample.coords)


# --- stored labels


def stored(folder: Path, labels: list[Labelled], config: DataConfig, seed: int = 0) -> StoredLabels:
    """All labels of a store with these."""
    if not folder.exists():
        fill(folder, labels)
    source = StoredLabels([str(folder)], labels[0].sample.problem, config, seed)
    source.use(source.counts())
    return source


def test_stored_batches_follow_from_seed_and_step(tmp_path: Path) -> None:
    labels = simple_labels("cvrp", [*range(20, 60), *[100] * 20])
    config = DataConfig(batch=6, nodes=300)
    source, again = (stored(tmp_path / "store", labels, config, seed=3) for _ in range(2))
    batches = [source.batch(step) for step in range(40)]
    for step in reversed(range(40)):  # in any order
        assert numbers(again.batch(step)) == numbers(batches[step])
    other = stored(tmp_path / "store", labels, config, seed=4)
    assert any(numbers(other.batch(step)) != numbers(batches[step]) for step in range(3))
    assert len({name for batch in batches for name in numbers(batch)}) > 40  # it comes around


def test_stored_batches_are_of_similar_size(tmp_path: Path) -> None:
    labels = simple_labels("tsp", [*range(20, 60), *[100] * 20, 200])
    source = stored(tmp_path / "store", labels, DataConfig(batch=6, nodes=300))
    counts = set()
    for step in range(60):
        sizes = [x.sample.size for x in source.batch(step)]
        assert max(sizes) <= 1.11 * min(sizes)
        assert max(sizes) * len(sizes) <= 300 * 1.06
        counts.add((round(max(sizes), -2), len(sizes)))
    assert (100, 3) in counts


def test_a_store_smaller_than_a_batch_repeats_itself(tmp_path: Path) -> None:
    source = stored(tmp_path / "one", simple_labels("tsp", [9, 9]), DataConfig(batch=5))
    assert [len(source.batch(step)) for step in range(3)] == [2, 2, 2]
    mixed = stored(tmp_path / "two", simple_labels("tsp", [9, 20, 20, 20]), DataConfig(batch=3))
    assert {len(mixed.batch(step)) for step in range(20)} == {3}


def test_stores_may_grow(tmp_path: Path) -> None:
    labels, store = simple_labels("tsp", [8, 9, 10, 11]), tmp_path / "store"
    source = stored(store, labels[:2], DataConfig(batch=2))
    fill(store, labels[2:])
    assert [x.sample.size for x in source.labels] == [8, 9]
    assert source.counts() == (4,)
    for count in (3, 4):
        source.use((count,))
        assert numbers(source.labels) == numbers(labels[:count])
    again = StoredLabels([str(store)], "tsp", DataConfig(batch=2), 0)
    again.use((3,))  # a resumed run takes what it had
    assert numbers(again.labels) == numbers(labels[:3])


def source_of(problem: ProblemName, folder: Path, *labels: object) -> LabelSource:
    options = ImitationConfig(labels=tuple(str(x) for x in labels))
    return label_source(Config(PolicyConfig(problem), DataConfig(), options, TrainConfig(steps=1)), options, folder)


def test_label_sources(tmp_path: Path) -> None:
    one = fill(tmp_path / "one", simple_labels("tsp", [8, 9]))
    two = fill(tmp_path / "two", simple_labels("tsp", [10]))
    source = source_of("tsp", tmp_path, one, two)
    assert isinstance(source, StoredLabels)
    source.use(source.counts())
    assert [x.sample.size for x in source.labels] == [8, 9, 10]
    with pytest.raises(ValueError, match=r"one: imitate\.labels are for 'tsp', policy\.problem is 'cvrp'"):
        source_of("cvrp", tmp_path, one).use((2,))
    with pytest.raises(ValueError, match=r"nothing: imitate\.labels names no labelled instances"):
        source_of("tsp", tmp_path, tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"missing\.npz: imitate\.labels names no labelled instances"):
        source_of("cvrp", tmp_path, "missing.npz")


def test_stores_of_different_generator_versions_are_refused(tmp_path: Path) -> None:
    old = fill(tmp_path / "old", simple_labels("tsp", [8]))
    new = LabelStore(tmp_path / "new")
    claim(new, LabelStream("tsp", ((8, 8),)))
    new.add(simple_labels("tsp", [8]))
    expected = rf"different generator versions: .*old \(version 1\), .*new \(version {GENERATOR_VERSION}\)"
    with pytest.raises(ValueError, match=expected):
        source_of("tsp", tmp_path, old, new.folder)


# --- labels made on the fly


def test_a_run_with_labels_of_an_older_generator_does_not_continue(tmp_path: Path) -> None:
    fill(tmp_path / "labels", simple_labels("tsp", [8]))
    with pytest.raises(ValueError, match="labels holds instances of generator version 1"):
        FreshLabels(tmp_path / "labels", BatchStream("tsp", FRESH, 7), REUSE)


FRESH = DataConfig(sizes="8,12", distribution="mixed", batch=4, nodes=40)
REUSE = 3

CHILD = """
import sys, time
from pathlib import Path
from elgo.train.config import DataConfig
from elgo.train.data import BatchStream, FreshLabels
if __name__ == "__main__":
    source = FreshLabels(Path(sys.argv[1]), BatchStream("tsp", DataConfig(**eval(sys.argv[2])), 7), 3)
    source.batch(3 * 4)
    print(source.process.pid, flush=True)
    time.sleep(600)
"""


def test_batches_follow_one_another_in_the_store() -> None:
    batches = BatchStream("tsp", FRESH, seed=7)
    places = [batches.place(number) for number in range(6)]
    assert places[0][0] == 0
    for number, (begin, end) in enumerate(places):
        assert end - begin == batch_size(FRESH, batches.stream.size(4 * number))
        assert number == 0 or begin == places[number - 1][1]


def test_fresh_labels_end_with_their_parent_and_resume_from_their_store(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    (tmp_path / "child.py").write_text(CHILD)
    command = [sys.executable, str(tmp_path / "child.py"), str(tmp_path), str(vars(FRESH))]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    labeller = int(parent.stdout.readline())
    os.kill(labeller, 0)  # it lives
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while alive(labeller) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(labeller)

    held = LabelStore(tmp_path).load()
    reader = FreshLabels(tmp_path, BatchStream("tsp", FRESH, 7), REUSE, writing=False)  # as in another process
    batches, steps = reader.batches, 0
    while batches.place(steps // 3)[1] <= len(held):
        batch = reader.batch(steps)
        number = steps // 3
        if steps % 3:  # an earlier number, always the same
            number = next(g for g in range(number + 1) if numbers(batch) == numbers(held[slice(*batches.place(g))]))
        for i, x in enumerate(batch):
            assert np.array_equal(x.sample.coords, batches.stream.sample(4 * number + i).coords)
        assert numbers(reader.batch(steps)) == numbers(batch)
        steps += 1
    assert steps >= 15

    writer = FreshLabels(
        tmp_path, BatchStream("tsp", FRESH, 7), REUSE
    )  # a resumed run: old labels at once, then new ones
    try:
        for step in range(steps):
            assert numbers(writer.batch(step)) == numbers(reader.batch(step))
        later = writer.batch(steps)
        assert np.array_equal(later[-1].sample.coords, batches.stream.sample(4 * (steps // 3) + len(later) - 1).coords)
    finally:
        writer.close()
    with pytest.raises(ChildProcessError, match="has ended"):
        writer.batch(3 * 10_000)


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits for its parent to look at it does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
