"""Filling stores: resumed, by several workers, stopped by signals, from the command line."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from elgo.train.label_store import LabelStore
from elgo.train.label_stream import LabelStream
from elgo.train.labels import make_labels


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


def test_two_workers_keep_the_order(tmp_path: Path) -> None:
    pytest.importorskip("fast_tsp")
    stream, store = LabelStream("tsp", ((5, 9),), seed=1), LabelStore(tmp_path)
    assert make_labels(store, stream, count=12, workers=2, report=lambda line: None) == 12
    for i, found in enumerate(store.load()):
        assert np.array_equal(found.sample.coords, stream.sample(i).coords)


def make_command(store: Path, sizes: str) -> list[str]:
    return [sys.executable, "-m", "elgo.train.labels", "make", str(store), "--problem", "tsp", "--sizes", sizes]


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
    assert ended.stderr == "sizes is 'x'; write 100,200 or 50-1000\n"
