"""Check that the models of the package are what their cards say: the file, and the cost of a small named set."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from elgo.bench.methods import Method, Options, run_method
from elgo.bench.sets import Selection, load_set
from elgo.bench.tables import Table
from elgo.model.cards import Card
from elgo.problem.errors import ElgoError

TOLERANCE = 0.1  # percent of the mean cost: another processor rounds otherwise, and may turn a move or two
SAME = "as in the card"


def measure_check(card: Card, folder: Path) -> float:
    """Return the mean cost of a model in a folder on the set of its card."""
    check, problem = card.check, card.config.problem
    found = load_set("uniform", selection=Selection(problem, limit=check.instances))
    if found.groups != [check.set]:
        raise ElgoError(f"{folder / card.name}.toml: check.set is {check.set!r}, must be {found.groups[0]!r}")
    file = str(folder / f"{card.name}.safetensors")
    method = Method(card.name, None, file, check.starts, check.symmetries)
    answers = run_method(method, [entry.instance for entry in found.entries], Options())
    return fmean(answer.solution.cost for answer in answers if answer.solution is not None)


def verify(cards: Sequence[Card], folder: Path) -> Table:
    """Return a row for each model: the measured cost, that of its card, and in the last column whether they agree."""
    rows = []
    for card in cards:
        check, cost = card.check, measure_check(card, folder)
        deviation = 100 * (cost / check.cost - 1)
        verdict = SAME
        if not abs(deviation) <= TOLERANCE:
            verdict = f"OTHER COST: {deviation:+.2f} %"
        elif card.found_sha256 != card.facts.sha256:
            verdict = f"OTHER FILE: its SHA-256 is {card.found_sha256}"
        counts = (str(check.instances), f"{check.starts}x{check.symmetries}")
        rows.append(
            (card.name, f"{check.set}, first {counts[0]}", counts[1], f"{cost:.5f}", f"{check.cost:g}", verdict)
        )
    header = ("", "set", "starts x symmetries", "mean cost", "card", "verdict")
    return Table("Models against their cards", header, tuple(rows), (f"costs may differ by {TOLERANCE:g} %",))
