"""Stores survive a kill and give back what was added; filling them: resumed, by several workers, stopped by signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tiny import SQUARE, assert_same_label, set_x_sample, trivial_label

from elgo.bulk.engines import open_engine
from elgo.problem.errors import ElgoError
from elgo.problem.generate import GENERATOR_VERSION
from elgo.train.labelling import LabelStream
from elgo.train.labels import LabelStore, make_labels, read_xml100


def test_store_round_trip(tmp_path: Path) -> None:
    made = [trivial_label(set_x_sample(n, n)) for n in (5, 30, 12)] + [
        trivial_label(SQUARE),
        trivial_label(set_x_sample(8)),
    ]
    store = LabelStore(tmp_path / "store")
    assert len(store) == 0
    assert store.load() == []
    store.add([])
    store.add(made[:2])
    store.add(made[2:])
    again = LabelStore(tmp_path / "store")
    assert len(again) == 5
    for a, b in zip(made, again.load(), strict=True):
        assert_same_label(a, b)
    for start in range(6):
        tail = again.load(start)
        assert len(tail) == 5 - start
        for a, b in zip(made[start:], tail, strict=True):
            assert_same_label(a, b)


def test_damaged_stores(tmp_path: Path) -> None:
    store = LabelStore(tmp_path)
    store.add([trivial_label(SQUARE)])
    shard = tmp_path / "00000000.npz"
    for damaged in (shard.read_bytes()[:100], b""):
        shard.write_bytes(damaged)
        for read in (store.load, store.__len__):
            with pytest.raises(ElgoError, match=r"00000000\.npz: not an \.npz file of numbers"):
                read()
    np.savez(shard, cost=[1.0])
    with pytest.raises(ElgoError, match=r"00000000\.npz: coords is missing"):
        store.load()
    for text, message in (("[" * 10**5, "not JSON"), ("[1]", "does not describe a store"), ("{", "not JSON")):
        (tmp_path / "stream.json").write_text(text)
        with pytest.raises(ElgoError, match=rf"stream\.json: {message}"):
            _ = store.generator_version


def test_half_written_shard_is_ignored(tmp_path: Path) -> None:
    store = LabelStore(tmp_path)
    store.add([trivial_label(SQUARE)])
    (tmp_path / ".00000001.npz.77.part").write_bytes((tmp_path / "00000000.npz").read_bytes()[:100])
    assert len(store) == 1
    assert len(store.load()) == 1
    store.add([trivial_label(SQUARE)])
    assert len(store) == 2


def test_failed_write_leaves_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LabelStore(tmp_path)
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.add([trivial_label(SQUARE)])
    assert len(store) == 0
    assert store.load() == []


def test_read_xml100(tmp_path: Path) -> None:
    coords = np.array([[[0, 0], [3, 4], [0, 5], [6, 8]]], dtype=np.int16)
    np.savez(
        tmp_path / "xml.npz",
        coords=coords,
        demand=np.array([[0, 2, 2, 3]], dtype=np.int16),
        capacity=np.array([5], dtype=np.int32),
        cost=np.array([30], dtype=np.int32),
        giant_tour=np.array([[0, 3, 1, 0, 2, 0, 0, 0]], dtype=np.int16),
    )
    (found,) = read_xml100(tmp_path / "xml.npz")
    assert found.routes == ((1, 3), (2,))
    assert found.cost == 30
    assert found.sample.capacity == 5


def test_make_labels_resumes_and_guards_the_stream(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    stream, lines = LabelStream("tsp", ((5, 9),), seed=1), list[str]()
    store = LabelStore(tmp_path / "s")
    assert make_labels(store, stream, count=3, report=lines.append) == 3
    assert make_labels(store, stream, count=5, report=lines.append) == 5
    assert lines[-1] == "s: 5 labels, done"
    for i, found in enumerate(store.load()):
        assert np.array_equal(found.sample.coords, stream.sample(i).coords)
    with pytest.raises(ValueError, match="holds the stream"):
        make_labels(store, LabelStream("tsp", ((5, 9),), seed=2), count=6)


def write_version(store: Path, version: int | None) -> None:
    """Make the store look as if that version of the generators had filled it; None: one that recorded no version."""
    path = store / "stream.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    record.pop("generator_version", None)
    path.write_text(json.dumps(record | ({} if version is None else {"generator_version": version})))


@pytest.mark.parametrize(("recorded", "version"), [(None, 1), (1, 1), (99, 99)])
def test_versions_of_the_generators_do_not_mix(tmp_path: Path, recorded: int | None, version: int) -> None:
    stream, store = LabelStream("tsp", ((3, 3),), seed=1), LabelStore(tmp_path / "s")
    assert make_labels(store, stream, count=2) == 2
    assert store.generator_version == GENERATOR_VERSION
    write_version(store.folder, recorded)
    expected = f"{store.folder} holds instances of generator version {version}, .* of version {GENERATOR_VERSION};"
    with pytest.raises(ValueError, match=expected):
        make_labels(store, stream, count=3)
    assert len(store.load()) == 2  # still readable


def test_a_store_without_a_record_is_version_one(tmp_path: Path) -> None:
    store = LabelStore(tmp_path)
    store.add([trivial_label(SQUARE)])
    assert store.generator_version == 1
    with pytest.raises(ValueError, match="holds instances of generator version 1"):
        make_labels(store, LabelStream("tsp", ((4, 4),)), count=2)


def test_shared_labels_of_version_one_are_readable(data: Path) -> None:
    store = LabelStore(data / "cvrp_setx_labelled")
    if not len(store):
        pytest.skip(f"no labels in {store.folder}")
    assert store.generator_version == 1
    assert len(store) == 2820
    assert store.load(2818)[0].sample.problem == "cvrp"


def test_two_workers_keep_the_order(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    stream, store = LabelStream("tsp", ((5, 9),), seed=1), LabelStore(tmp_path)
    with open_engine("local", 2) as engine:
        assert make_labels(store, stream, count=12, engine=engine, report=lambda line: None) == 12
    for i, found in enumerate(store.load()):
        assert np.array_equal(found.sample.coords, stream.sample(i).coords)


def make_command(store: Path, sizes: str) -> list[str]:
    return [sys.executable, "-m", "elgo", "labels", "make", str(store), "--problem", "tsp", "--sizes", sizes]


def test_sigterm_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    process = subprocess.Popen(make_command(tmp_path / "s", "50"), stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "s" / "stream.json").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(2)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "stopped" in output
    assert len(LabelStore(tmp_path / "s").load()) == len(LabelStore(tmp_path / "s")) > 0


def test_command_line_error_is_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(make_command(tmp_path / "s", "x"), capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "elgo: sizes is 'x'; write 100,200 or 50-1000\n"
