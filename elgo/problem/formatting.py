"""Results -> a table for people. Rich is imported where it is used, so that parsing the command line stays fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from elgo.solve.solver import Result


def format_cost(cost: float | None, comma: str = "") -> str:
    """A cost as an integer when it is integral, otherwise with four decimals; a dash when there is none.

    A comma in the second place goes between thousands.
    """
    if cost is None:
        return "-"
    return f"{int(cost):{comma}}" if float(cost).is_integer() else f"{cost:{comma}.4f}"


def format_gap(gap: float | None) -> str:
    """A gap in percent with two decimals; a dash when there is none."""
    return "-" if gap is None else f"{gap:.2f}"


def results_table(results: Sequence[Result]) -> Table:
    """One row per result, and the mean gap in a last row when several results have a gap."""
    from rich import box
    from rich.table import Table

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
