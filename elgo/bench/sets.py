"""Benchmark sets: the instances of a name, folder or file, with best-known costs and the groups of the tables."""

import csv
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elgo.bench.references import with_references
from elgo.problem.errors import ElgoError
from elgo.problem.files import COST_TABLES, problem_files, read, read_solution
from elgo.problem.files.arrays import ARRAY_SUFFIXES, read_instances
from elgo.problem.files.text import is_number, is_possible_cost, read_text
from elgo.problem.generate import KOOL_COUNT, as_instance, generate, kool_test_set, synthetic_test_set
from elgo.problem.instance import Instance
from elgo.problem.task import PROBLEMS, ProblemName

GENERATED = ("uniform", "synthetic", "scaling")  # without a mean over groups
MEAN_COSTS = {
    "TSP100": 7.765,
    "CVRP100": 15.65,
}  # of a group in the literature, where instances have no best-known cost
SYNTHETIC, SYNTHETIC_SIZES = ("cluster", "mixture", "explosion", "rotation"), (100, 200)
PART, PART_200 = 1000, 100  # what the paper's tables here take of TSP100 and CVRP100, and of sets with N = 200
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
# Set-X from end to end
SELECTIONS = {"ten": "X-n101,X-n153,X-n200,X-n298,X-n401,X-n502,X-n627,X-n783,X-n895,X-n1001"}


class FileSet(NamedTuple):
    """A set that is a folder of files with known names."""

    title: str
    names: Sequence[str]
    suffix: str
    folders: tuple[str, ...]  # where it may be below the data folder; "" is that folder itself
    full: dict[str, int]  # group -> number of instances


_TSPLIB_GROUPS, _X_GROUPS = {"<=200": 29, "200-1002": 20}, {"<=200": 22, "200-1000": 78}
_XXL_GROUPS = {"A1": 1, "A2": 1, "L1": 1, "L2": 1}  # as in the paper
FILE_SETS = {
    "tsplib": FileSet("TSPLIB, EUC_2D", TSPLIB_NAMES, ".tsp", ("tsplib", ""), _TSPLIB_GROUPS),
    "cvrplib-x": FileSet("CVRPLIB Set-X", SET_X_NAMES, ".vrp", ("cvrplib/X", "X", ""), _X_GROUPS),
    "cvrplib-xxl": FileSet("CVRPLIB Set-XXL", XXL_NAMES, ".vrp", ("cvrplib/XXL", "XXL", ""), _XXL_GROUPS),
}


@dataclass(frozen=True, eq=False)
class Entry:
    """An instance and the column of the table that it belongs to."""

    group: str
    instance: Instance


@dataclass(frozen=True, eq=False)
class BenchSet:
    """Instances in a fixed order, their names all different.

    full        number of instances of each group in the complete set, where it is known
    batch_size  how many instances a model decodes at once; their time is shared evenly
    """

    name: str
    title: str
    entries: Sequence[Entry]
    full: Mapping[str, int] = field(default_factory=dict)
    batch_size: int = 1
    notes: tuple[str, ...] = ()

    @property
    def groups(self) -> list[str]:
        """The columns of the table, in order."""
        return list(dict.fromkeys(entry.group for entry in self.entries))

    @property
    def problems(self) -> list[ProblemName]:
        """The problems in the set."""
        return sorted({entry.instance.problem for entry in self.entries})


@dataclass(frozen=True)
class Selection:
    """Which part of a set to take."""

    problem: str | None = None
    instances: str | None = None  # comma-separated names, beginnings up to a dash, or patterns; or a key of SELECTIONS
    limit: int | None = None  # only the first instances of each group
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.problem not in (None, *PROBLEMS):
            raise ElgoError(f"--problem is {self.problem!r}, must be tsp or cvrp")

    @property
    def problems(self) -> list[ProblemName]:
        """The selected problems."""
        return [problem for problem in PROBLEMS if self.problem in (None, problem)]


def synthetic_names(problem: ProblemName, size: int) -> list[str]:
    """Return the names of the paper's synthetic sets with that many customers."""
    return [f"{problem}_{distribution}_{size}" for distribution in SYNTHETIC]


def load_set(name: str, data: Path | None = None, selection: Selection | None = None) -> BenchSet:
    """Return the selected part of the set with this name, or of one's own data: a folder, .npz or .pkl file."""
    selection = selection or Selection()
    if name in FILE_SETS:
        found = _file_set(name, data_folder(data))
    elif name == "synthetic":
        found = _synthetic(data_folder(data), selection)
    elif name in GENERATED:
        found = _uniform(selection, data_folder(data)) if name == "uniform" else _scaling(selection)
    elif Path(name).is_dir():
        found = _folder(Path(name))
    elif Path(name).suffix.lower() in ARRAY_SUFFIXES:
        found = _array_file(Path(name))
    else:
        known = ", ".join([*FILE_SETS, *GENERATED])
        raise ElgoError(f"{name}: no such set or folder, and no .npz or .pkl file; the sets are {known}")
    return _select(found, selection)


def data_folder(given: Path | None) -> Path:
    """Return the folder of benchmark files: as given, else $ELGO_DATA, else in the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return given or Path(os.environ.get("ELGO_DATA") or cache / "elgo" / "data")


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
        raise ElgoError(
            f"{data}: --data has no file of the set {name}, such as {here[0].name} (looked in {folders}); "
            f"name another folder, set ELGO_DATA, or run: elgo data fetch {name}"
        )
    missing = [file.name for file in here if not file.is_file()]
    notes = (f"{len(missing)} of {len(here)} files are missing: {', '.join(missing[:5])} ...",) if missing else ()
    instances = read_files(files)
    if name == "cvrplib-xxl":
        entries = [Entry(it.name[0] + it.name[-1], it) for it in instances]
    else:
        small, large = known.full
        instances.sort(key=lambda it: it.customers)
        entries = [Entry(large if it.customers > 200 else small, it) for it in instances]
    return BenchSet(name, known.title, entries, known.full, notes=notes)


def _folder(folder: Path) -> BenchSet:
    """Return the .tsp, .vrp and .csv files of any folder as a set."""
    instances = read_files(problem_files(folder))
    name, count = Counter(instance.name for instance in instances).most_common(1)[0]
    if count > 1:
        raise ElgoError(f"{folder}: two problem files are called {name}")
    groups = ("<=200", "200-1000", ">1000")
    entries = [Entry(groups[(it.customers > 200) + (it.customers > 1000)], it) for it in instances]
    entries.sort(key=lambda entry: groups.index(entry.group))
    return BenchSet(folder.resolve().name or "folder", f"folder {folder.resolve().name}", entries)


def _array_file(file: Path) -> BenchSet:
    """Return the instances of an .npz or .pkl file as a set with one group."""
    entries = [Entry(file.name, instance) for instance in read_instances(file)]
    return BenchSet(file.stem, file.name, entries, batch_size=BATCH_SIZE)


def read_files(files: Sequence[Path]) -> list[Instance]:
    """Return the problems in the files of a folder, named like these; ElgoError for a broken best-known cost."""
    instances = [read(file) for file in files]
    table, costs = _cost_table(files[0].parent)
    cells = [costs.get(file.stem, costs.get(it.name)) for file, it in zip(files, instances, strict=True)]
    if costs and set(cells) == {None}:
        raise ElgoError(f"{table}: has no row for any of the {len(files)} problem files beside it")
    for file, instance, cell in zip(files, instances, cells, strict=True):
        beside = [file.with_name(file.stem + suffix) for suffix in (".sol", ".opt.tour")]
        found = next((path for path in beside if path.exists()), None)
        if found:
            solution = read_solution(found, instance)
            if not solution.feasible:
                raise ElgoError(f"{found}: is not a solution of {instance.name}: {solution.violations[0]}")
        elif cell is not None and not (is_number(cell) and is_possible_cost(float(cell), instance.metric)):
            kind = "a whole number" if instance.metric.rounded else "a number"
            raise ElgoError(f"{table}: cost of {file.stem} is {cell!r}, expected {kind} above 0")
    return [replace(instance, name=file.stem) for file, instance in zip(files, instances, strict=True)]


def _cost_table(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return the table of costs in a folder, and the last cell of each instance's row."""
    files = [folder / table for table in COST_TABLES if (folder / table).is_file()]
    if not files:
        return folder, {}
    try:
        rows = list(csv.reader(read_text(files[0], (".csv",)).splitlines()))
    except (csv.Error, ValueError) as error:
        reason = str(error).removeprefix(f"{files[0]}: ")
        raise ElgoError(f"{files[0]}: not a table of costs, rows NAME,...,cost ({reason})") from None
    return files[0], {row[0].strip(): row[-1].strip() for row in rows if row}


# --- generated sets --------------------------------------------------------------------------------------------------


def _uniform(selection: Selection, data: Path) -> BenchSet:
    """Return 10,000 TSP100 and 10,000 CVRP100 of Kool et al. (2019)."""
    groups = {problem: f"{problem.upper()}100" for problem in selection.problems}
    entries = []
    for problem, group in groups.items():
        samples = kool_test_set(problem, min(selection.limit or KOOL_COUNT, KOOL_COUNT))
        instances = [as_instance(sample, f"{group}-{i:05d}") for i, sample in enumerate(samples)]
        entries += [Entry(group, instance) for instance in with_references(group, instances, data)]
    title, full = f"Uniform {' and '.join(groups.values())}", dict.fromkeys(groups.values(), KOOL_COUNT)
    note = (
        "gaps of all 10,000 are to mean costs, the optimum's 7.765 (TSP100) and LKH3's 15.65 (CVRP100); those of a "
        "part to reference costs of the same instances, of which HGS's (CVRP100) are about 0.5 % below LKH3's"
    )
    return BenchSet("uniform", title, entries, full, BATCH_SIZE, (note,))


def _synthetic(data: Path, selection: Selection) -> BenchSet:
    """Return the synthetic sets: the files in the data folder, and what is missing by our generator."""
    folder = data / "synthetic" if (data / "synthetic").is_dir() else data
    groups: dict[str, Sequence[Instance]] = {}
    for problem in selection.problems:
        known = [name for size in SYNTHETIC_SIZES for name in synthetic_names(problem, size)]
        files = {file.stem: file for file in sorted(folder.glob(f"{problem}_*.npz"))}
        for name in dict.fromkeys([*known, *files]):
            if selection.groups is None or name in selection.groups:
                instances = read_instances(files[name]) if name in files else generate_synthetic(name)
                groups[name] = with_references(name, instances, data)
    made = [name for name in groups if not (folder / f"{name}.npz").is_file()]
    entries = [Entry(group, instance) for group, instances in groups.items() for instance in instances]
    full = {group: len(instances) for group, instances in groups.items()}
    notes = (f"not the paper's files, but by our generators with seed 1234: {', '.join(made)}",) if made else ()
    return BenchSet("synthetic", "Synthetic sets", entries, full, BATCH_SIZE, notes)


def generate_synthetic(name: str) -> list[Instance]:
    """Return the instances of a synthetic set such as tsp_cluster_100 by our generator."""
    problem, distribution, size = name.split("_")
    samples = synthetic_test_set(problem, int(size), distribution)
    return [as_instance(sample, f"{name}-{i:04d}") for i, sample in enumerate(samples)]


def _scaling(selection: Selection) -> BenchSet:
    """Return uniform instances of growing size; each depends on (problem, N, i) alone."""
    entries = []
    for problem in selection.problems:
        for n, count in SCALING_SIZES.items():
            for i in range(min(count, selection.limit or count)):
                rng = np.random.default_rng([SCALING_SEED, PROBLEMS.index(problem), n, i])
                sample = generate(rng, problem, n, "uniform")
                entries.append(Entry(f"{problem} {n}", as_instance(sample, f"{problem}-{n}-{i}")))
    return BenchSet("scaling", "Scaling, uniform", entries)


# --- selection -------------------------------------------------------------------------------------------------------


def _select(found: BenchSet, selection: Selection) -> BenchSet:
    """Return the selected part of a set; ElgoError if it is empty, or if a name matches nothing."""
    entries = [entry for entry in found.entries if entry.instance.problem in selection.problems]
    if selection.instances is not None:
        names = _matching([entry.instance.name for entry in found.entries], found.name, selection.instances)
        entries = [entry for entry in entries if entry.instance.name in names]
    if selection.groups is not None:
        entries = [entry for entry in entries if entry.group in selection.groups]
    if selection.limit is not None:
        by_group = [[entry for entry in entries if entry.group == group] for group in found.groups]
        entries = [entry for members in by_group for entry in members[: selection.limit]]
    if not entries:
        count = len(found.entries)
        raise ElgoError(f"{found.name}: no instance is left of {count} with --problem {selection.problem}")
    return replace(found, entries=entries)


def _matching(names: Sequence[str], set_name: str, text: str) -> set[str]:
    """Return the names in a comma-separated list of names and patterns; X-n101 stands for X-n101-k25."""
    selected: set[str] = set()
    for pattern in filter(None, (part.strip() for part in SELECTIONS.get(text, text).split(","))):
        matched = {name for name in names if fnmatchcase(name, pattern) or name.startswith(f"{pattern}-")}
        if not matched:
            raise ElgoError(f"{set_name}: --instances has {pattern!r}, which matches none of {len(names)} names")
        selected |= matched
    return selected
