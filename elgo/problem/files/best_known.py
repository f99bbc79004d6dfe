"""Best known costs as comments of problem files and cost tables state them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from elgo.problem.files.text import is_number, read_text, split_lines
from elgo.problem.instance import Metric

COST_TABLES = ("optima.csv", "solutions.csv")  # rows `NAME,...,cost`, in the same folder as the problem files

_STATED = re.compile(r"(?:optimal|best known) value\s*:?\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.IGNORECASE)


def cost_in_comments(comments: Iterable[str], metric: Metric) -> float | None:
    """Return the cost in a comment like 'Optimal value: 784'.

    'Best value' is ignored: in the old files such values have often been improved since.
    """
    for match in map(_STATED.search, comments):
        if match:
            return _if_possible(float(match[1]), metric)
    return None


def cost_in_table(path: Path, names: set[str], metric: Metric) -> float | None:
    """Return the last cell of the row that starts with one of the names, None if the file or the row is missing."""
    try:
        rows = list(csv.reader(split_lines(read_text(path, (".csv",)))))
    except (ValueError, csv.Error):
        return None
    costs = (row[-1] for row in rows if row and row[0].strip() in names)
    return next((_if_possible(float(cost), metric) for cost in costs if is_number(cost)), None)


def _if_possible(cost: float, metric: Metric) -> float | None:
    """Return the cost, or None if the metric cannot give it: a fraction where all costs are integers."""
    return None if not 0 < cost < np.inf or (metric.rounded and not cost.is_integer()) else cost
