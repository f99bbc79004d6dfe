"""Every named set: how its instances are made, how costs are rounded, what gaps refer to, and whether it is here.

sets.toml has what is known of each, with the SHA-256 of the instances: of their distance types, coordinates, demands
and capacities in order, however the files are written.
"""

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from elgo.bench.references import find_references
from elgo.bench.sets import FILE_SETS, MEAN_COSTS, PART, PART_200, Selection, load_set, set_folder
from elgo.bench.tables import Table
from elgo.problem.errors import ElgoError
from elgo.problem.instance import Instance

_VALIDATION = Path(__file__).parents[1] / "train" / "validation"
HERE, GENERATED, ABSENT = "yes", "generated", "no"


@dataclass(frozen=True)
class NamedSet:
    """What is known of a set; see sets.toml."""

    name: str
    instances: int
    nodes: str  # N, without the depot
    generator: str  # or where the files come from
    rounding: str
    reference: str  # where reference costs come from
    sha256: str
    seed: int | None = None
    file: bool = False  # the instances are files; a generator of ours makes others


@cache
def named_sets() -> dict[str, NamedSet]:
    """Return every named set by its name."""
    stored = tomllib.loads(Path(__file__).with_name("sets.toml").read_text(encoding="utf-8"))
    return {name: NamedSet(name, **values) for name, values in stored.items()}


def content_sha256(instances: Sequence[Instance]) -> str:
    """Return the SHA-256 of the instances of a set."""
    digest = hashlib.sha256()
    for it in instances:
        digest.update(it.metric.value.encode())
        for array in (it.coords, it.demand, it.capacity):
            if array is not None:
                digest.update(np.asarray(array, "<f8").tobytes())
    return digest.hexdigest()


def load_group(name: str, data: Path, limit: int | None = None) -> list[Instance]:
    """Return the first instances of a set with the paper's name for it, such as TSP100 or tsp_cluster_100."""
    if name in MEAN_COSTS:
        problem = "tsp" if name == "TSP100" else "cvrp"
        found = load_set("uniform", data, Selection(problem, limit=limit))
    elif name in named_sets() and "_" in name:
        found = load_set("synthetic", data, Selection(name.split("_")[0], limit=limit, groups=(name,)))
    else:
        known = [*MEAN_COSTS, *(other for other in named_sets() if "_" in other)]
        raise ElgoError(f"{name}: no such set of instances of one size; there are {', '.join(known)}")
    return [entry.instance for entry in found.entries]


def measured_count(name: str) -> int:
    """Return how many instances of a set the paper's tables here need reference costs of."""
    return PART_200 if name.endswith("_200") else PART


def without_references(data: Path) -> list[str]:
    """Return the sets of instances of one size of which reference costs are missing that the paper's tables need."""
    names = [*MEAN_COSTS, *(name for name in named_sets() if "_" in name)]
    return [name for name in names if load_group(name, data, measured_count(name))[-1].best_known is None]


def catalogue_table(data: Path) -> Table:
    """Return a row for each named set, checked against its SHA-256, and one for each validation set."""
    rows = [_row(known, data) for known in named_sets().values()]
    for line in (_VALIDATION / "SHA256SUMS").read_text().splitlines():
        sha256, name = line.split()
        problem, distribution, size, count = name.removesuffix(".npz").split("-")
        solver = "fast_tsp" if problem == "tsp" else "HGS, PyVRP"
        facts = (f"validation-{problem}-{distribution}-{size}", count, size, distribution, "0", "none")
        rows.append((*facts, f"{count} by {solver}", "in the package", sha256))
    header = ("", "instances", "N", "generator", "seed", "rounding", "reference costs", "here", "SHA-256")
    notes = (f"files are looked for in {data}", "SHA-256: of the instances; validation sets: of the file")
    return Table("Named sets", header, tuple(rows), notes)


def _row(known: NamedSet, data: Path) -> tuple[str, ...]:
    instances, here = _look(known, data)
    found = content_sha256(instances) if instances else known.sha256
    if found != known.sha256:
        here = "generated, not the paper's" if here == GENERATED else "OTHER INSTANCES"
    facts = (str(known.instances), known.nodes, known.generator, "-" if known.seed is None else str(known.seed))
    return known.name, *facts, known.rounding, _references(known, instances, data), here, found


def _look(known: NamedSet, data: Path) -> tuple[list[Instance], str]:
    """Return the instances of a set that are here, and how they come here."""
    if known.name in FILE_SETS:
        folder, files = set_folder(known.name, data), FILE_SETS[known.name]
        missing = [name for name in files.names if not (folder / f"{name}{files.suffix}").is_file()]
        if missing:
            part = f"{known.instances - len(missing)} of {known.instances}; " * (len(missing) < known.instances)
            return [], f"{ABSENT}: {part}elgo data fetch {known.name}"
        by_name = {entry.instance.name: entry.instance for entry in load_set(known.name, data).entries}
        return [by_name[name] for name in files.names], HERE
    if known.name == "scaling":
        return [entry.instance for entry in load_set("scaling").entries], GENERATED
    instances = load_group(known.name, data)
    is_file = any((folder / f"{known.name}.npz").is_file() for folder in (data / "synthetic", data))
    return instances, HERE if is_file else GENERATED


def _references(known: NamedSet, instances: Sequence[Instance], data: Path) -> str:
    """Return where reference costs come from, with those that were made here."""
    found = None if known.name in FILE_SETS else find_references(known.name, instances, data)
    made = "" if found is None else f"first {len(found.cost)} by {found.solver}"
    return "; ".join(filter(None, [known.reference, made])) or "none yet: elgo data reference"
