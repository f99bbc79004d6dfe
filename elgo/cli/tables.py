"""Tables of results for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from elgo.problem.solution import format_cost, format_gap
from elgo.solve.result import Result


def results_table(results: Sequence[Result]) -> Table:
    """Return a table with one row per result, and a last row with the mean gap if several results have a gap."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("name", overflow="fold")
    table.add_column("problem")
    for header in ("nodes", "routes", "cost", "best known", "gap %", "seconds"):
        table.add_column(header, justify="right", no_wrap=True)
    for result in results:
        instance = result.instance
        table.add_row(
            instance.name,
            instance.problem,
            str(instance.size),
            str(len(result.solution.routes)),
            format_cost(result.cost),
            format_cost(instance.best_known),
            format_gap(result.gap),
            f"{result.seconds.total:.2f}",
        )
    gaps = [result.gap for result in results if result.gap is not None]
    if len(gaps) > 1:
        table.add_section()
        table.add_row(f"mean of {len(gaps)}", "", "", "", "", "", format_gap(sum(gaps) / len(gaps)), "")
    return table
