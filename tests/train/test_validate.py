"""Validation: gaps against an independent computation, and sets that are made once."""

import os
import shutil
import signal
from pathlib import Path

import naive
import numpy as np
import pytest
from samples import random_policy
from tiny import NETWORK, assert_same_label, fill, fill_validation, simple_label, simple_labels

from elgo.decode.decoder import DecodeConfig
from elgo.model.config import PolicyConfig
from elgo.problem.task import Task
from elgo.train import labelling, validate
from elgo.train.config import parse_set
from elgo.train.labelling import Labelled, label
from elgo.train.labels import LabelStore
from elgo.train.validate import instance_gaps, validation_set

ONE = DecodeConfig(threads=1)


def greedy_tour(policy, task, start: int) -> list[int]:
    """Node by node with the naive loops over the policy's own parameters."""
    weights = {name: value.double().numpy() for name, value in policy.state_dict().items()}
    walk = [start]
    while not naive.is_over(task, walk):
        (logits,) = naive.logits(weights, policy.config, task, [walk])
        walk.append(int(np.argmax(logits)))
    return walk


@pytest.mark.parametrize("how", ["fit", "raw"])
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_gaps_equal_an_independent_computation(problem: str, how: str) -> None:
    policy = random_policy(PolicyConfig(problem, **NETWORK, normalisation=how))
    known = simple_labels(problem, [9, 6])
    if how == "raw":  # a part of the unit square
        known = [
            simple_label(x.sample._replace(coords=0.1 + x.sample.coords / x.sample.coords.max() / 2)) for x in known
        ]
    first = {"tsp": ([0, 4, 8], [0, 2, 5]), "cvrp": ([1, 5, 9], [1, 3, 6])}[problem]  # spread over the list of nodes
    for x, starts, found in zip(known, first, instance_gaps(policy, known, 3, ONE), strict=True):
        sample = x.sample
        low, high = sample.coords.min(axis=0), sample.coords.max(axis=0)
        unit = (sample.coords - (low + high) / 2) / (high - low).max() + 0.5
        task = sample if how == "raw" else sample._replace(coords=unit)
        lengths = [naive.length(sample, greedy_tour(policy, task, start)) for start in starts]
        assert x.cost == pytest.approx(naive.length(sample, x.tour.tolist()))
        assert found.best == pytest.approx(100 * (min(lengths) / x.cost - 1), abs=1e-3)
        assert found.single == pytest.approx(100 * (sum(lengths) / 3 / x.cost - 1), abs=1e-3)


def test_no_instances_have_no_gaps() -> None:
    assert instance_gaps(random_policy(PolicyConfig("tsp", **NETWORK)), [], 3, ONE) == []


def test_starts_are_limited_by_nodes() -> None:
    policy, known = random_policy(PolicyConfig("tsp", **NETWORK)), simple_labels("tsp", [5])
    assert instance_gaps(policy, known, 100, ONE) == instance_gaps(policy, known, 5, ONE)


def test_sets_are_made_once_and_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fast_tsp")
    monkeypatch.setattr(validate, "label_seconds", lambda problem, size: 0.01)
    made = validation_set(tmp_path, "tsp", "uniform-8-3")
    assert [x.sample.size for x in made] == [8, 8, 8]
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}

    def refuse(*args, **kwargs):
        raise AssertionError("made again")

    monkeypatch.setattr(validate, "make_labels", refuse)
    for name, count in (("uniform-8-3", 3), ("uniform-8-2", 2)):
        again = validation_set(tmp_path, "tsp", name)
        assert len(again) == count
        assert all(np.array_equal(a.sample.coords, b.sample.coords) for a, b in zip(made, again, strict=False))
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    with pytest.raises(AssertionError, match="made again"):
        validation_set(tmp_path, "tsp", "uniform-8-4")


def test_a_set_is_apart_from_training_and_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fast_tsp")
    monkeypatch.setattr(validate, "label_seconds", lambda problem, size: 0.01)
    here, there = (validation_set(tmp_path / place, "tsp", "mixed-9-2") for place in ("a", "b"))
    assert all(np.array_equal(a.sample.coords, b.sample.coords) for a, b in zip(here, there, strict=True))
    stream = validate.LabelStream("tsp", ((9, 9),), "mixed")
    assert not np.array_equal(stream.sample(0).coords, here[0].sample.coords)


def test_an_interrupt_while_making_a_set_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lines = [], list[str]()

    def interrupted(sample: Task, seconds: float | None) -> Labelled:
        made.append(sample)
        if len(made) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return simple_label(sample)

    monkeypatch.setattr(labelling, "label_tsp", interrupted)
    with pytest.raises(KeyboardInterrupt):
        validation_set(tmp_path, "tsp", "uniform-8-10", lines.append)
    assert lines == ["val-tsp-uniform-8: 3 labels, stopped"]
    assert len(LabelStore(tmp_path / "val-tsp-uniform-8")) == 3  # nothing is lost
    assert len(validation_set(tmp_path, "tsp", "uniform-8-10")) == 10
    assert len(made) == 10


# Mean costs of the labels that all figures in docs/training.md refer to.
SHIPPED_MEANS = {
    ("tsp", "mixed-100-64"): 5.405909999789701,
    ("tsp", "mixed-200-32"): 6.707511671244155,
    ("tsp", "mixed-500-8"): 10.782142732235021,
    ("tsp", "uniform-20-200"): 3.8367875730307617,
    ("tsp", "uniform-50-100"): 5.706526316710519,
    ("tsp", "uniform-200-20"): 10.690614754468257,
    ("cvrp", "set_x-100-32"): 17449.771595335296,
    ("cvrp", "set_x-200-16"): 29241.708475918414,
    ("cvrp", "set_x-500-4"): 102657.08260241579,
}


@pytest.mark.parametrize(("problem", "name"), SHIPPED_MEANS)
def test_shipped_sets_never_change(problem: str, name: str, tmp_path: Path) -> None:
    _, size, count = parse_set(name)
    found = validation_set(tmp_path, problem, name)
    assert not list(tmp_path.iterdir())  # nothing was generated
    assert len(found) == count
    for x in found:
        assert x.sample.customers == size
        assert_same_label(x, label(x.sample, x.routes))  # feasible, and the cost is its length
    assert np.mean([x.cost for x in found]) == pytest.approx(SHIPPED_MEANS[problem, name], rel=1e-12)
    for x, whole in zip(validation_set(tmp_path, problem, f"{name.rpartition('-')[0]}-2"), found, strict=False):
        assert_same_label(x, whole)


def test_all_shipped_sets_are_listed_and_small() -> None:
    files = {path.name: path.stat().st_size for path in validate.SHIPPED.iterdir()}
    listed = [line.split()[1] for line in (validate.SHIPPED / "SHA256SUMS").read_text().splitlines()]
    assert sorted([*listed, "SHA256SUMS"]) == sorted(files)
    assert sum(files.values()) < 1_500_000


def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shutil.copytree(validate.SHIPPED, tmp_path / "shipped")
    monkeypatch.setattr(validate, "SHIPPED", shipped)
    shutil.copy(shipped / "tsp-mixed-200-32.npz", shipped / "tsp-mixed-100-64.npz")
    with pytest.raises(ValueError, match=r"tsp-mixed-100-64\.npz: its SHA-256 is \w{64}, expected \w{64}"):
        validation_set(tmp_path, "tsp", "mixed-100-64")


def test_larger_sets_than_shipped_are_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelling, "label_tsp", lambda sample, seconds: simple_label(sample))
    assert len(validation_set(tmp_path, "tsp", "mixed-500-9")) == 9
    assert (tmp_path / "val-tsp-mixed-500").is_dir()


def test_time_for_labels_grows_with_size() -> None:
    assert validate.label_seconds("tsp", 50) == validate.label_seconds("tsp", 100) == 0.5
    assert validate.label_seconds("cvrp", 500) == 15.0


def test_sets_of_an_older_generator_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "val-tsp-uniform-10", simple_labels("tsp", [10, 10]))
    with pytest.raises(ValueError, match=r"val-tsp-uniform-10 holds instances of generator version 1, "):
        validation_set(tmp_path, "tsp", "uniform-10-2")


def test_stored_sets_need_no_solver(tmp_path: Path) -> None:
    fill_validation(tmp_path, "cvrp", ["cluster"])
    assert [x.sample.customers for x in validation_set(tmp_path, "cvrp", "cluster-10-3")] == [10, 10, 10]
