"""Comparison of two benchmarks: mean costs, a paired test, and what became worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elgo.bench.run import Record, read_config, read_records
from elgo.bench.tables import Table

P_LIMIT = 0.05
TOLERANCE = 0.01  # percent of the cost: a smaller mean difference is no regression, even if it is significant
HEADER = "|instances|mean cost A|mean cost B|B - A %|B better|B worse|p|s A|s B|verdict"


@dataclass(frozen=True, eq=False)
class Pair:
    """A method of A and a method of B on the instances that both have solved."""

    name: str
    costs: np.ndarray  # (2, instances): of A and of B
    seconds: np.ndarray  # (2, instances)
    lost: int  # instances that A has solved and B has failed on

    @property
    def changes(self) -> np.ndarray:
        """The differences B - A in percent of A's cost."""
        return 100 * (self.costs[1] / self.costs[0] - 1)

    @property
    def p(self) -> float:
        """The two-sided p of Wilcoxon's signed-rank test; 1 if nothing differs."""
        from scipy.stats import wilcoxon

        return float(wilcoxon(self.changes).pvalue) if self.changes.any() else 1.0

    @property
    def verdict(self) -> str:
        """Return "same", "better" or "WORSE"."""
        if self.lost:
            return f"WORSE: {self.lost} failed"
        difference = self.changes.mean()
        if self.p >= P_LIMIT or abs(difference) <= TOLERANCE:
            return "same"
        return "WORSE" if difference > 0 else "better"

    def row(self) -> tuple[str, ...]:
        """Return the cells of the pair in the table."""
        changes, costs, seconds = self.changes, self.costs.mean(axis=1), self.seconds.mean(axis=1)
        counts = [str(np.count_nonzero(side)) for side in (changes < 0, changes > 0)]
        numbers = [f"{cost:.6g}" for cost in costs] + [f"{changes.mean():+.3f}"]
        times = [f"{second:.3g}" for second in seconds]
        return self.name, str(len(changes)), *numbers, *counts, f"{self.p:.3g}", *times, self.verdict


def compare(a: str, b: str) -> list[Pair]:
    """Return the pairs of methods with the same name in two folders, or the pair FOLDER:METHOD and FOLDER:METHOD."""
    (folder_a, method_a), (folder_b, method_b) = _side(a), _side(b)
    records_a, records_b = _by_method(folder_a), _by_method(folder_b)
    if bool(method_a) != bool(method_b):
        raise ValueError(f"{b if method_a else a}: name a method on both sides (FOLDER:METHOD) or on none")
    for folder, method, known in ((folder_a, method_a, records_a), (folder_b, method_b, records_b)):
        if method and method not in known:
            raise ValueError(f"{folder}: has no method {method!r}; there are {', '.join(known)}")
    pairs = [(method_a, method_b)] if method_a else [(name, name) for name in records_a if name in records_b]
    if not pairs:
        raise ValueError(f"{b}: has no method in common with {a} ({', '.join(records_a)})")
    return [_pair(f"{a} and {b}", x, y, records_a[x], records_b[y]) for x, y in pairs]


def _side(text: str) -> tuple[Path, str]:
    """Return folder and method of FOLDER or FOLDER:METHOD; a method's name may have a colon too."""
    cuts = [i for i, letter in enumerate(text) if letter == ":"]
    cut = next((i for i in (len(text), *cuts) if Path(text[:i]).is_dir()), (*cuts, len(text))[0])
    return Path(text[:cut]), text[cut + 1 :]


def _by_method(folder: Path) -> dict[str, dict[str, Record]]:
    found: dict[str, dict[str, Record]] = {method: {} for method in read_config(folder).methods}
    for record in read_records(folder):
        found[record.method][record.instance] = record
    return found


def _pair(where: str, method_a: str, method_b: str, a: Mapping[str, Record], b: Mapping[str, Record]) -> Pair:
    common = [(one, b[name]) for name, one in a.items() if name in b and one.cost is not None]
    both = [(x.cost, y.cost, x.seconds, y.seconds) for x, y in common if y.cost is not None]
    if not both:
        raise ValueError(f"{where}: methods {method_a!r} and {method_b!r} have no solved instance in common")
    columns = np.array(both, dtype=float).T
    name = method_a if method_a == method_b else f"{method_a} / {method_b}"
    return Pair(name, columns[:2], columns[2:], len(common) - len(both))


def compare_table(a: str, b: str, pairs: Sequence[Pair]) -> Table:
    """Return a table with a row per pair of methods, regressions in capitals."""
    note = f"paired over instances; WORSE: p < {P_LIMIT} and more than {TOLERANCE} % on average, or new failures"
    return Table(f"A = {a}, B = {b}", tuple(HEADER.split("|")), tuple(pair.row() for pair in pairs), (note,))
