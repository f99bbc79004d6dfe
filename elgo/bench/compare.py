"""Comparison of two benchmarks: mean costs, a paired test, and what became worse."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from elgo.bench.run import Record, read_config, read_records
from elgo.bench.tables import Table
from elgo.problem.errors import ElgoError

P_LIMIT = 0.05
TOLERANCE = 0.01  # percent of the cost: a smaller mean difference is no regression, even if it is significant
HEADER = "|instances|mean cost A|mean cost B|B - A %|B better|B worse|p|s A|s B|verdict"


def compare(a: str, b: str) -> Table:
    """Return a table with a row per method that two folders have, or one for FOLDER:METHOD and FOLDER:METHOD.

    The verdict in the last column begins with WORSE where B is worse than A.
    """
    (folder_a, method_a), (folder_b, method_b) = _side(a), _side(b)
    records_a, records_b = _by_method(folder_a), _by_method(folder_b)
    if bool(method_a) != bool(method_b):
        raise ElgoError(f"{b if method_a else a}: name a method on both sides (FOLDER:METHOD) or on none")
    for folder, method, known in ((folder_a, method_a, records_a), (folder_b, method_b, records_b)):
        if method and method not in known:
            raise ElgoError(f"{folder}: has no method {method!r}; there are {', '.join(known)}")
    pairs = [(method_a, method_b)] if method_a else [(name, name) for name in records_a if name in records_b]
    if not pairs:
        raise ElgoError(f"{b}: has no method in common with {a} ({', '.join(records_a)})")
    rows = tuple(_row(f"{a} and {b}", x, y, records_a[x], records_b[y]) for x, y in pairs)
    note = f"paired over instances; WORSE: p < {P_LIMIT} and more than {TOLERANCE} % on average, or new failures"
    return Table(f"A = {a}, B = {b}", tuple(HEADER.split("|")), rows, (note,))


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


def _row(where: str, method_a: str, method_b: str, a: Mapping[str, Record], b: Mapping[str, Record]) -> tuple[str, ...]:
    """Return the cells of two methods, over the instances that both have solved."""
    common = [(one, b[name]) for name, one in a.items() if name in b and one.cost is not None]
    both = [(x.cost, y.cost, x.seconds, y.seconds) for x, y in common if y.cost is not None]
    if not both:
        raise ElgoError(f"{where}: methods {method_a!r} and {method_b!r} have no solved instance in common")
    for x, y in common:
        if x.metric and y.metric and x.metric != y.metric:  # empty in folders of earlier versions
            raise ElgoError(f"{where}: costs of {x.instance} are {x.metric} and {y.metric}, rounded differently")
    cost_a, cost_b, seconds_a, seconds_b = np.array(both, dtype=float).T
    changes = 100 * (cost_b / cost_a - 1)  # percent of A's cost
    difference, p, lost = changes.mean(), signed_rank(changes), len(common) - len(both)
    verdict = "WORSE" if difference > 0 else "better"
    if lost:
        verdict = f"WORSE: {lost} failed"
    elif p >= P_LIMIT or abs(difference) <= TOLERANCE:
        verdict = "same"
    name = method_a if method_a == method_b else f"{method_a} / {method_b}"
    costs = (f"{cost_a.mean():.6g}", f"{cost_b.mean():.6g}", f"{difference:+.3f}")
    counts = (str((changes < 0).sum()), str((changes > 0).sum()))
    seconds = (f"{seconds_a.mean():.3g}", f"{seconds_b.mean():.3g}")
    return name, str(len(both)), *costs, *counts, f"{p:.3g}", *seconds, verdict


def signed_rank(changes: np.ndarray) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; 1 if nothing differs."""
    from scipy.stats import wilcoxon

    return float(wilcoxon(changes).pvalue) if changes.any() else 1.0
