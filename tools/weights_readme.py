"""Write the part of elgo/model/weights/README.md that follows from the cards beside it.

Use: python tools/weights_readme.py, after a card was changed; a test compares.
"""

from pathlib import Path

from elgo.model.cards import Card, read_cards
from elgo.model.checkpoint import SHIPPED

README = SHIPPED / "README.md"
BEGIN, END = "<!-- from the cards: tools/weights_readme.py -->", "<!-- end -->"


def from_cards(cards: list[Card]) -> str:
    """Return the table of models, their gaps and weaknesses as Markdown."""
    lines = [
        "| model | parameters | MB | K | trained on | training | core-hours | recipe |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for card in cards:
        facts, recipes = card.facts, ", ".join(f"`{name}`" for name in card.facts.recipes)
        size = f"{card.parameters:,} | {card.size / 1e6:.2f} | {card.config.neighbours}"
        lines.append(f"| `{card.name}` | {size} | {facts.data} | {facts.training} | {facts.core_hours:g} | {recipes} |")
    lines += ["", "| model | set, starts x symmetries | gap % |", "|---|---|---|"]
    lines += [f"| `{card.name}` | {name} | {gap:.2f} |" for card in cards for name, gap in card.gaps.items()]
    lines += ["", "**Known weaknesses.**", ""]
    lines += [f"- `{card.name}`: {card.facts.weaknesses}" for card in cards if card.facts.weaknesses]
    return "\n".join(lines)


def updated(text: str, cards: list[Card]) -> str:
    """Return the README with the part between the marks made again."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{from_cards(cards)}\n\n{END}{tail}"


if __name__ == "__main__":
    Path(README).write_text(updated(README.read_text(encoding="utf-8"), read_cards(SHIPPED)), encoding="utf-8")
