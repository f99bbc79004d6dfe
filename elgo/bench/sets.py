"""Benchmark sets: the instances of a name or folder, with best-known costs and the groups that the tables show."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elgo.problem.files import COST_TABLES, read, read_solution
from elgo.problem.files.text import is_number, is_possible_cost
from elgo.problem.generate import KOOL_COUNT, as_instance, generate, kool_test_set
from elgo.problem.instance import Instance, Metric

SETS = ("tsplib", "cvrplib-x", "cvrplib-xxl", "uniform", "synthetic", "scaling")
PROBLEMS = ("tsp", "cvrp")
BATCH_SIZE = 50  # instances of a generated set that a model decodes at once
SCALING_SIZES = {100: 10, 200: 10, 500: 10, 1000: 10, 2000: 3, 5000: 3, 10_000: 3}  # N -> instances
SCALING_SEED = 4321

# The EUC_2D instances of TSPLIB with at most 1002 nodes that the paper reports.
_TSPLIB = """
a280 berlin52 bier127 ch130 ch150 d198 d493 d657 eil101 eil51 eil76 fl417 gil262 kroA100 kroA150 kroA200 kroB100
kroB150 kroB200 kroC100 kroD100 kroE100 lin105 lin318 p654 pcb442 pr1002 pr107 pr124 pr136 pr144 pr152 pr226 pr264
pr299 pr439 pr76 rat195 rat575 rat783 rat99 rd100 rd400 st70 ts225 tsp225 u159 u574 u724
"""
_SET_X = """
101-k25 106-k14 110-k13 115-k10 120-k6 125-k30 129-k18 134-k13 139-k10 143-k7 148-k46 153-k22 157-k13 162-k11
167-k10 172-k51 176-k26 181-k23 186-k15 190-k8 195-k51 200-k36 204-k19 209-k16 214-k11 219-k73 223-k34 228-k23
233-k16 237-k14 242-k48 247-k50 251-k28 256-k16 261-k13 266-k58 270-k35 275-k28 280-k17 284-k15 289-k60 294-k50
298-k31 303-k21 308-k13 313-k71 317-k53 322-k28 327-k20 331-k15 336-k84 344-k43 351-k40 359-k29 367-k17 376-k94
384-k52 393-k38 401-k29 411-k19 420-k130 429-k61 439-k37 449-k29 459-k26 469-k138 480-k70 491-k59 502-k39 513-k21
524-k153 536-k96 548-k50 561-k42 573-k30 586-k159 599-k92 613-k62 627-k43 641-k35 655-k131 670-k130 685-k75 701-k44
716-k35 733-k159 749-k98 766-k71 783-k48 801-k40 819-k171 837-k142 856-k95 876-k59 895-k37 916-k207 936-k151 957-k87
979-k58 1001-k43
"""
TSPLIB_NAMES = _TSPLIB.split()
SET_X_NAMES = [f"X-n{name}" for name in _SET_X.split()]
XXL_NAMES = ["Antwerp1", "Antwerp2", "Leuven1", "Leuven2"]
SELECTIONS = {
    "ten": "X-n101,X-n153,X-n200,X-n298,X-n401,X-n502,X-n627,X-n783,X-n895,X-n1001",  # Set-X from end to end
}


class FileSet(NamedTuple):
    """A set that is a folder of files with known names."""

    title: str
    names: Sequence[str]
    suffix: str
    folders: tuple[str, ...]  # where it may be below the data folder; "" is that folder itself
    largest: int  # N of the upper group; 0: each instance is a group


FILE_SETS = {
    "tsplib": FileSet("TSPLIB, EUC_2D", TSPLIB_NAMES, ".tsp", ("tsplib", ""), 1002),
    "cvrplib-x": FileSet("CVRPLIB Set-X", SET_X_NAMES, ".vrp", ("cvrplib/X", "X", ""), 1000),
    "cvrplib-xxl": FileSet("CVRPLIB Set-XXL", XXL_NAMES, ".vrp", ("cvrplib/XXL", "XXL", ""), 0),
}


@dataclass(frozen=True, eq=False)
class Entry:
    """An instance and the column of the table that it belongs to."""

    group: str
    instance: Instance


@dataclass(frozen=True, eq=False)
class BenchSet:
    """Instances in a fixed order, their names all different.

    groups      the columns of the table, in order
    total       whether a mean over all groups makes sense
    full        number of instances of each group in the complete set, where it is known
    mean_costs  mean cost of a group in the literature, where single instances have no best-known cost
    batch_size  how many instances a model decodes at once; their time is shared evenly
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    groups: tuple[str, ...]
    total: bool = True
    full: Mapping[str, int] = field(default_factory=dict)
    mean_costs: Mapping[str, float] = field(default_factory=dict)
    batch_size: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selection:
    """Which part of a set to take."""

    problem: str | None = None
    instances: str | None = None  # comma-separated names, beginnings up to a dash, or patterns; or a key of SELECTIONS
    limit: int | None = None  # only the first instances of each group

    def __post_init__(self) -> None:
        if self.problem not in (None, *PROBLEMS):
            raise ValueError(f"--problem is {self.problem!r}, must be tsp or cvrp")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"--limit is {self.limit}, must be at least 1")


def load_set(name: str, data: Path | None = None, selection: Selection | None = None) -> BenchSet:
    """Return the selected part of the set with this name, or of the folder of problem files at this path."""
    selection = selection or Selection()
    if name in FILE_SETS:
        found = _file_set(name, data_folder(data))
    elif name == "uniform":
        found = _uniform(selection)
    elif name == "synthetic":
        found = _synthetic(data_folder(data))
    elif name == "scaling":
        found = _scaling(selection)
    elif Path(name).is_dir():
        found = _folder(Path(name))
    else:
        raise ValueError(f"{name}: no such set or folder; the sets are {', '.join(SETS)}")
    return _select(found, selection)


def data_folder(given: Path | None) -> Path:
    """Return the folder of benchmark files: as given, else $ELGO_DATA, else in the user's cache folder."""
    if given is not None:
        return given
    if os.environ.get("ELGO_DATA"):
        return Path(os.environ["ELGO_DATA"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elgo" / "data"


# --- sets of files ---------------------------------------------------------------------------------------------------


def set_folder(name: str, data: Path) -> Path:
    """Return the folder of a file set below the data folder: the first that has one of its files, else the first."""
    known = FILE_SETS[name]
    for below in known.folders:
        if any((data / below / f"{stem}{known.suffix}").is_file() for stem in known.names):
            return data / below
    return data / known.folders[0]


def _file_set(name: str, data: Path) -> BenchSet:
    known = FILE_SETS[name]
    folder = set_folder(name, data)
    here = [folder / f"{stem}{known.suffix}" for stem in known.names]
    files = [file for file in here if file.is_file()]
    if not files:
        folders = ", ".join(str(data / below) for below in known.folders)
        raise ValueError(
            f"{data}: --data has no file of the set {name}, such as {here[0].name} (looked in {folders}); "
            f"name another folder, set ELGO_DATA, or run: elgo data fetch {name}"
        )
    missing = [file.name for file in here if not file.is_file()]
    notes = (f"{len(missing)} of {len(here)} files are missing: {', '.join(missing[:5])} ...",) if missing else ()
    instances = read_files(files)
    if name == "cvrplib-xxl":
        entries = tuple(Entry(_short(it.name), it) for it in instances)
        groups = tuple(_short(stem) for stem in known.names)
        return BenchSet(name, known.title, entries, groups, full=dict.fromkeys(groups, 1), notes=notes)
    groups = ("<=200", f"200-{known.largest}")
    entries = tuple(Entry(groups[it.customers > 200], it) for it in sorted(instances, key=lambda it: it.customers))
    full = {"tsplib": (29, 20), "cvrplib-x": (22, 78)}[name]
    return BenchSet(name, known.title, entries, groups, full=dict(zip(groups, full, strict=True)), notes=notes)


def _short(name: str) -> str:
    """Return A1 for Antwerp1, as in the paper."""
    return name[0] + name[-1]


def _folder(folder: Path) -> BenchSet:
    """Return the .tsp, .vrp and .csv files of any folder as a set."""
    suffixes = (".tsp", ".vrp", ".csv")
    files = [p for p in sorted(folder.iterdir()) if p.suffix.lower() in suffixes and p.name.lower() not in COST_TABLES]
    if not files:
        raise ValueError(f"{folder}: no problem files ({', '.join(suffixes)}) in this folder")
    instances = read_files(files)
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        twice = next(stem for stem in names if names.count(stem) > 1)
        raise ValueError(f"{folder}: two problem files are called {twice}")
    groups = ("<=200", "200-1000", ">1000")
    entries = [Entry(groups[int(np.searchsorted((200, 1000), it.customers))], it) for it in instances]
    used = tuple(group for group in groups if any(entry.group == group for entry in entries))
    return BenchSet(folder.resolve().name or "folder", f"folder {folder.resolve().name}", tuple(entries), used)


def read_files(files: Sequence[Path]) -> list[Instance]:
    """Return the problems in the files, named like these; ValueError for a best-known file that cannot be used."""
    instances = [read(file) for file in files]
    tables = {folder: _cost_table(folder) for folder in {file.parent for file in files}}
    for file, instance in zip(files, instances, strict=True):
        _check_best_known(file, instance, tables[file.parent])
    for folder, (table, costs) in tables.items():
        stems = {name for file, it in zip(files, instances, strict=True) for name in (file.stem, it.name)}
        if costs and not stems & set(costs):
            raise ValueError(f"{folder / table}: has no row for any of the {len(files)} problem files beside it")
    return [replace(instance, name=file.stem) for file, instance in zip(files, instances, strict=True)]


def _cost_table(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the name of the table of costs in a folder, and the last cell of each instance's row."""
    for table in COST_TABLES:
        file = folder / table
        if not file.is_file():
            continue
        raw = file.read_bytes()
        if not raw.strip() or b"\0" in raw:
            raise ValueError(f"{file}: not a table of costs (rows NAME,...,cost)")
        try:
            rows = list(csv.reader(raw.decode("utf-8-sig", "replace").splitlines()))
        except csv.Error as error:
            raise ValueError(f"{file}: not a table of costs ({error})") from None
        return table, {row[0].strip(): row[-1].strip() for row in rows if row}
    return "", {}


def _check_best_known(file: Path, instance: Instance, table: tuple[str, dict[str, str]]) -> None:
    """Raise ValueError for a best-known cost that `read` ignored because it is not valid."""
    for suffix in (".sol", ".opt.tour"):
        beside = file.with_name(file.stem + suffix)
        if beside.exists():
            solution = read_solution(beside, instance)
            if not solution.feasible:
                raise ValueError(f"{beside}: is not a solution of {instance.name}: {solution.violations[0]}")
            return
    name, costs = table
    cell = costs.get(file.stem, costs.get(instance.name))
    if cell is not None and not (is_number(cell) and is_possible_cost(float(cell), instance.metric)):
        kind = "a whole number" if instance.metric.rounded else "a number"
        raise ValueError(f"{file.with_name(name)}: cost of {file.stem} is {cell!r}, expected {kind} above 0")


# --- generated sets --------------------------------------------------------------------------------------------------


def _uniform(selection: Selection) -> BenchSet:
    """Return 10,000 TSP100 and 10,000 CVRP100 of Kool et al. (2019), with the mean costs of the optimum and of LKH3."""
    groups = {"tsp": "TSP100", "cvrp": "CVRP100"}
    wanted = [problem for problem in PROBLEMS if selection.problem in (None, problem)]
    entries = [
        Entry(groups[problem], as_instance(sample, f"{groups[problem]}-{i:05d}"))
        for problem in wanted
        for i, sample in enumerate(kool_test_set(problem, min(selection.limit or KOOL_COUNT, KOOL_COUNT)))
    ]
    columns = tuple(groups[problem] for problem in wanted)
    return BenchSet(
        name="uniform",
        title=f"Uniform {' and '.join(columns)}",
        entries=tuple(entries),
        groups=columns,
        total=False,
        full=dict.fromkeys(columns, KOOL_COUNT),
        mean_costs={"TSP100": 7.765, "CVRP100": 15.65},
        batch_size=BATCH_SIZE,
        notes=("gaps are those of mean costs over the 10,000: the optimum's 7.765 (TSP100), LKH3's 15.65 (CVRP100)",),
    )


def _synthetic(data: Path) -> BenchSet:
    folder = data / "synthetic" if (data / "synthetic").is_dir() else data
    files = sorted(folder.glob("*.npz"), key=lambda file: (not file.name.startswith("tsp"), file.name))
    files = [file for file in files if file.name.startswith(PROBLEMS)]
    if not files:
        raise ValueError(f"{folder}: --data has no file of the set synthetic, such as tsp_cluster_100.npz")
    entries = tuple(Entry(file.stem, instance) for file in files for instance in read_npz(file))
    groups = tuple(file.stem for file in files)
    full = {group: sum(entry.group == group for entry in entries) for group in groups}
    return BenchSet("synthetic", "Synthetic sets", entries, groups, total=False, full=full, batch_size=BATCH_SIZE)


def read_npz(file: Path) -> Iterator[Instance]:
    """Return the instances of an .npz file.

    It holds coords (B, n, 2), for CVRP demand (B, n) and capacity (B,), and optionally reference_cost (B,).
    """
    try:
        with np.load(file) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file}: not an .npz file ({str(error).splitlines()[0]})") from None
    needed = ("coords",) if file.name.startswith("tsp") else ("coords", "demand", "capacity")
    for name in needed:
        if name not in arrays:
            raise ValueError(f"{file}: {name} is missing; the file has {', '.join(arrays) or 'nothing'}")
    count = len(arrays["coords"])
    for name, values in arrays.items():
        if len(np.atleast_1d(values)) != count:
            raise ValueError(f"{file}: {name} has shape {values.shape}, but there are {count} instances in coords")
    return _instances(file, arrays, count)


def _instances(file: Path, arrays: Mapping[str, np.ndarray], count: int) -> Iterator[Instance]:
    for i in range(count):
        one = {name: values[i] for name, values in arrays.items()}
        try:
            yield Instance(
                name=f"{file.stem}-{i:04d}",
                coords=one["coords"].astype(np.float64),
                metric=Metric.EXACT,
                demand=one["demand"].astype(np.float64) if "demand" in one else None,
                capacity=float(one["capacity"]) if "capacity" in one else None,
                best_known=float(one["reference_cost"]) if "reference_cost" in one else None,
            )
        except ValueError as error:
            raise ValueError(f"{file}: instance {i}: {error}") from None


def _scaling(selection: Selection) -> BenchSet:
    """Return uniform instances of growing size; each depends on (problem, N, i) alone."""
    wanted = [problem for problem in PROBLEMS if selection.problem in (None, problem)]
    entries = []
    for problem in wanted:
        for n, count in SCALING_SIZES.items():
            for i in range(min(count, selection.limit or count)):
                rng = np.random.default_rng([SCALING_SEED, PROBLEMS.index(problem), n, i])
                sample = generate(rng, problem, n, "uniform")
                entries.append(Entry(f"{problem} {n}", as_instance(sample, f"{problem}-{n}-{i}")))
    groups = tuple(dict.fromkeys(entry.group for entry in entries))
    return BenchSet("scaling", "Scaling, uniform", tuple(entries), groups, total=False)


# --- selection -------------------------------------------------------------------------------------------------------


def _select(found: BenchSet, selection: Selection) -> BenchSet:
    """Return the selected part of a set; ValueError if it is empty, or if a name matches nothing."""
    entries = [entry for entry in found.entries if selection.problem in (None, entry.instance.problem)]
    if selection.instances is not None:
        is_selected = _name_filter(found, selection.instances)
        entries = [entry for entry in entries if is_selected(entry.instance.name)]
    if selection.limit is not None:
        by_group = [[entry for entry in entries if entry.group == group] for group in found.groups]
        kept = {entry for members in by_group for entry in members[: selection.limit]}
        entries = [entry for entry in entries if entry in kept]
    if not entries:
        raise ValueError(
            f"{found.name}: no instance is left of {len(found.entries)} with --problem {selection.problem}"
        )
    groups = tuple(group for group in found.groups if any(entry.group == group for entry in entries))
    return replace(found, entries=tuple(entries), groups=groups)


def _name_filter(found: BenchSet, text: str) -> Callable[[str], bool]:
    """Return a test for names by a comma-separated list; X-n101 stands for X-n101-k25."""
    patterns = [part.strip() for part in SELECTIONS.get(text, text).split(",") if part.strip()]
    names = [entry.instance.name for entry in found.entries]

    def matches(name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or name.startswith(f"{pattern}-")

    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            raise ValueError(f"{found.name}: --instances has {pattern!r}, which matches none of {len(names)} names")
    return lambda name: any(matches(name, pattern) for pattern in patterns)
