"""Labelled instances on disk: append-only stores, and the file of the XML100 set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from elgo.problem.files import atomic_file
from elgo.problem.generate import Sample
from elgo.train.labelling import Labelled, label


class LabelStore:
    """A folder of shards NNNNNNNN.npz, named by the number of their first label; append-only, one writer.

    A shard appears under its name only when it is complete, so a store can be read at any time, and a killed writer
    leaves at most a hidden temporary file that is never read.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def _shards(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.npz") if path.stem.isdigit())

    def __len__(self) -> int:
        shards = self._shards()
        if not shards:
            return 0
        with np.load(shards[-1]) as arrays:
            return int(shards[-1].stem) + len(arrays["cost"])

    def add(self, labels: Sequence[Labelled]) -> None:
        """Append labels as one shard."""
        if not labels:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        final = self.folder / f"{len(self):08d}.npz"
        demands = [np.zeros(x.sample.size, np.int64) if x.sample.demand is None else x.sample.demand for x in labels]
        with atomic_file(final) as file:
            np.savez_compressed(
                file,
                coords=np.concatenate([x.sample.coords for x in labels]),
                demand=np.concatenate(demands).astype(np.int32),
                capacity=np.array([x.sample.capacity or 0 for x in labels], dtype=np.int64),  # 0: a TSP
                size=np.array([x.sample.size for x in labels], dtype=np.int32),
                tour=np.concatenate([x.tour for x in labels]).astype(np.int32),
                tour_size=np.array([len(x.tour) for x in labels], dtype=np.int32),
                cost=np.array([x.cost for x in labels]),
            )
            if final.exists():
                raise ValueError(f"{final} exists: another process writes to this store")

    def load(self, start: int = 0) -> list[Labelled]:
        """Return the labels start, start + 1, ... in the order in which they were added."""
        shards = self._shards()
        firsts = [int(path.stem) for path in shards]
        wanted = [k for k in range(len(shards)) if k + 1 == len(shards) or firsts[k + 1] > start]
        found = [(firsts[k] + i, x) for k in wanted for i, x in enumerate(_read_shard(shards[k]))]
        return [x for number, x in found if number >= start]


def _read_shard(path: Path) -> list[Labelled]:
    with np.load(path) as arrays:
        a = {name: arrays[name] for name in arrays.files}
    nodes = np.concatenate([[0], np.cumsum(a["size"], dtype=np.int64)])
    visits = np.concatenate([[0], np.cumsum(a["tour_size"], dtype=np.int64)])
    labels = []
    for k, capacity in enumerate(a["capacity"].tolist()):
        node, visit = slice(nodes[k], nodes[k + 1]), slice(visits[k], visits[k + 1])
        demand = a["demand"][node].astype(np.int64) if capacity else None
        sample = Sample(a["coords"][node], demand, capacity or None)
        labels.append(Labelled(sample, a["tour"][visit].astype(np.int64), float(a["cost"][k])))
    return labels


def read_xml100(path: Path | str) -> list[Labelled]:
    """Return the instances of the labelled XML100 set (.npz) with their optimal routes, in the file's order.

    The routes are optimal for rounded distances; cost is their unrounded length, as everywhere here.
    """
    with np.load(path) as arrays:
        coords, demand = arrays["coords"].astype(np.float64), arrays["demand"].astype(np.int64)
        capacity, tours = arrays["capacity"].tolist(), arrays["giant_tour"].astype(np.int64)
    labels = []
    for k, tour in enumerate(tours):
        cuts = np.flatnonzero(tour == 0)
        routes = [tour[a + 1 : b] for a, b in pairwise(cuts) if b > a + 1]
        labels.append(label(Sample(coords[k], demand[k], capacity[k]), routes))
    return labels
