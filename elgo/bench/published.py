"""Published figures, from published.toml, where their origin is."""

import tomllib
from functools import cache
from pathlib import Path

NOTES = {
    "tsplib": "the published figures take 3861 for the optimum of tsp225, which is 3916: 0.03 too much on the mean"
}


@cache
def _tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def facts(name: str) -> dict[str, str]:
    """Return method -> what is known of it: "data" it was trained on, or "protocol", starts x symmetries."""
    return _tables()[name]


def published(name: str) -> dict[str, dict[str, str]]:
    """Return method -> group (also "seconds") -> figure for a set, or for "ablations"; empty if there are none."""
    section = _tables().get(name, {})
    if "groups" not in section:
        return {}
    figures = {method: text.split() for method, text in section.items()}
    groups = figures.pop("groups")
    return {method: dict(zip(groups, found, strict=True)) for method, found in figures.items()}
