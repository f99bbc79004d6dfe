"""`elgo models`: the models of the package."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from elgo.model.cards import Card


def models(
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Decode a small set with each; exit code 1 if the cost is not that of its card."),
    ] = False,
) -> None:
    """List the models of the package: network, size, training, gaps. Options such as --model take their names."""
    from elgo.model.cards import read_cards
    from elgo.model.checkpoint import SHIPPED

    cards = read_cards(SHIPPED)
    if not verify:
        print("\n\n".join("\n".join(_lines(card)) for card in cards))
        return

    from elgo.bench.verify import SAME
    from elgo.bench.verify import verify as verify_cards

    table = verify_cards(cards, SHIPPED)
    print(table.text())
    if any(row[-1] != SAME for row in table.rows):
        raise typer.Exit(1)


def _lines(card: Card) -> Iterator[str]:
    """Yield the lines that describe a model."""
    facts, check = card.facts, card.check
    name, problem = card.name.rsplit("-", 1)
    yield f"{card.name}  ({name} for {problem.upper()})"
    fields = {
        "network": card.network,
        "size": f"{card.parameters:,} parameters, {card.size / 1e6:.2f} MB",
        "trained": f"{facts.core_hours:g} core-hours: {facts.training}",
        "data": facts.data,
        "recipe": ", ".join(f"elgo train {config}" for config in facts.recipes),
        "gaps %": "; ".join(f"{name}: {gap:.2f}" for name, gap in card.gaps.items()),
        "check": f"mean cost {check.cost:g} on the first {check.instances} of {check.set}, "
        f"{check.starts}x{check.symmetries}",
        "weak at": facts.weaknesses,
    }
    for label, text in fields.items():
        if text:
            yield textwrap.fill(text, 110, initial_indent=f"  {label + ':':9} ", subsequent_indent=" " * 12)
