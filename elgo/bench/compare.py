"""Comparison of two benchmarks: mean costs, a paired test, and what became worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from elgo.bench.run import Record, read_config, read_records
from elgo.bench.tables import Table

P_LIMIT = 0.05
TOLERANCE = 0.01  # percent of the cost: a smaller mean difference is no regression, even if it is significant


@dataclass(frozen=True)
class Pair:
    """A method of A and a method of B on the instances that both have solved."""

    method_a: str
    method_b: str
    count: int
    cost_a: float
    cost_b: float
    difference: float  # mean of B - A, percent of A's cost
    wins: int  # of B
    losses: int
    p: float  # Wilcoxon's signed-rank test, two-sided
    seconds_a: float
    seconds_b: float
    lost: int  # instances that A has solved and B has failed on

    @property
    def verdict(self) -> str:
        if self.lost:
            return f"WORSE: {self.lost} failed"
        if self.p >= P_LIMIT or abs(self.difference) <= TOLERANCE:
            return "same"
        return "WORSE" if self.difference > 0 else "better"

    @property
    def regression(self) -> bool:
        return self.verdict.startswith("WORSE")


def compare(a: str, b: str) -> list[Pair]:
    """Return the pairs of methods with the same name in two folders, or the pair FOLDER:METHOD and FOLDER:METHOD."""
    (folder_a, method_a), (folder_b, method_b) = _side(a), _side(b)
    records_a, records_b = _by_method(folder_a), _by_method(folder_b)
    if (method_a is None) != (method_b is None):
        raise ValueError(f"{a if method_a is None else b}: name a method on both sides (FOLDER:METHOD) or on none")
    for folder, method, known in ((folder_a, method_a, records_a), (folder_b, method_b, records_b)):
        if method is not None and method not in known:
            raise ValueError(f"{folder}: has no method {method!r}; there are {', '.join(known)}")
    common = [(method, method) for method in records_a if method in records_b]
    pairs = [(method_a, method_b)] if method_a is not None and method_b is not None else common
    if not pairs:
        raise ValueError(f"{b}: has no method in common with {a} ({', '.join(records_a)})")
    return [_pair(f"{a} and {b}", x, y, records_a[x], records_b[y]) for x, y in pairs]


def _side(text: str) -> tuple[Path, str | None]:
    """Return folder and method of FOLDER or FOLDER:METHOD; a method's name may have a colon too."""
    if Path(text).is_dir() or ":" not in text:
        return Path(text), None
    cuts = [i for i, letter in enumerate(text) if letter == ":"]
    cut = next((i for i in cuts if Path(text[:i]).is_dir()), cuts[0])
    return Path(text[:cut]), text[cut + 1 :]


def _by_method(folder: Path) -> dict[str, dict[str, Record]]:
    found: dict[str, dict[str, Record]] = {method: {} for method in read_config(folder).methods}
    for record in read_records(folder):
        found.setdefault(record.method, {})[record.instance] = record
    return found


def _pair(where: str, method_a: str, method_b: str, a: Mapping[str, Record], b: Mapping[str, Record]) -> Pair:
    costs = [
        (one.cost, b[name].cost, one.seconds, b[name].seconds)
        for name, one in a.items()
        if name in b and one.cost is not None and b[name].cost is not None
    ]
    if not costs:
        raise ValueError(f"{where}: methods {method_a!r} and {method_b!r} have no solved instance in common")
    lost = sum(one.cost is not None and name in b and b[name].cost is None for name, one in a.items())
    first, second, seconds_a, seconds_b = (list(column) for column in zip(*costs, strict=True))
    changes = [100 * (y / x - 1) for x, y in zip(first, second, strict=True)]
    return Pair(
        method_a=method_a,
        method_b=method_b,
        count=len(costs),
        cost_a=fmean(first),
        cost_b=fmean(second),
        difference=fmean(changes),
        wins=sum(change < 0 for change in changes),
        losses=sum(change > 0 for change in changes),
        p=signed_rank(changes),
        seconds_a=fmean(seconds_a),
        seconds_b=fmean(seconds_b),
        lost=lost,
    )


def signed_rank(changes: list[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; 1 if nothing differs."""
    from scipy.stats import wilcoxon

    return float(wilcoxon(changes).pvalue) if any(changes) else 1.0


def compare_table(a: str, b: str, pairs: list[Pair]) -> Table:
    """Return a table with a row per pair of methods, regressions in capitals."""
    header = (
        "",
        "instances",
        "mean cost A",
        "mean cost B",
        "B - A %",
        "B better",
        "B worse",
        "p",
        "s A",
        "s B",
        "verdict",
    )
    rows = tuple(
        (
            pair.method_a if pair.method_a == pair.method_b else f"{pair.method_a} / {pair.method_b}",
            str(pair.count),
            f"{pair.cost_a:.6g}",
            f"{pair.cost_b:.6g}",
            f"{pair.difference:+.3f}",
            str(pair.wins),
            str(pair.losses),
            f"{pair.p:.3g}",
            f"{pair.seconds_a:.3g}",
            f"{pair.seconds_b:.3g}",
            pair.verdict,
        )
        for pair in pairs
    )
    notes = (f"paired over instances; WORSE: p < {P_LIMIT} and more than {TOLERANCE} % on average, or new failures",)
    return Table(f"A = {a}, B = {b}", header, rows, notes)
