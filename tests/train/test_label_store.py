"""Stores survive a kill and give back what was added; the file of XML100."""

import os
from pathlib import Path

import numpy as np
import pytest
from tiny import SQUARE, assert_same_label, set_x_sample, trivial_label

from elgo.train.label_store import LabelStore, read_xml100


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
