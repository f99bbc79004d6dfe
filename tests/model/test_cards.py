"""Cards of the shipped models: complete, true, and the source of the README beside them."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from elgo.model.cards import read_card, read_cards
from elgo.model.checkpoint import SHIPPED
from elgo.train.config import load_config

ROOT = Path(__file__).parents[2]


def copy(tmp_path: Path) -> Path:
    """A copy of a model of the package with its card."""
    for suffix in (".safetensors", ".toml"):
        shutil.copy(SHIPPED / f"elg-tsp{suffix}", tmp_path)
    return tmp_path / "elg-tsp.safetensors"


def test_every_model_has_a_card_and_every_card_a_model() -> None:
    cards = read_cards(SHIPPED)
    assert {card.name for card in cards} == {file.stem for file in SHIPPED.glob("*.toml")}
    for card in cards:
        assert card.name.endswith(f"-{card.config.problem}")
        assert card.found_sha256 == card.facts.sha256
        assert card.size == (SHIPPED / f"{card.name}.safetensors").stat().st_size
        assert card.gaps
        for recipe in card.facts.recipes:
            assert load_config(recipe).policy.problem == card.config.problem


def test_a_card_knows_its_network() -> None:
    by_name = {card.name: card for card in read_cards(SHIPPED)}
    assert by_name["elg-tsp"].parameters == 1_274_016
    assert by_name["elg-tsp"].network == (
        "global policy of 6 layers, width 128; local policy, width 32, K = 30; distance penalty with xi = 1"
    )


def test_the_readme_follows_from_the_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    sys.modules.pop("weights_readme", None)
    import weights_readme

    text = weights_readme.README.read_text(encoding="utf-8")
    assert text == weights_readme.updated(text, read_cards(SHIPPED)), "run: python tools/weights_readme.py"


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (r"core_hours = .*", "", "card.core_hours is missing"),
        (r"core_hours = .*", 'core_hours = "3"', "card.core_hours is '3', must be float"),
        (r"core_hours = .*", "hours = 3", "unknown field card.hours"),
        (r"instances = 32", "instances = 0", "check.instances is 0, must be at least 1"),
        (r'"TSPLIB <=200, 1x1" = .*', '"TSPLIB" = "many"', "could not convert"),
        (r"core_hours = .*", "core_hours", "elg-tsp.toml: "),
    ],
)
def test_a_wrong_card(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    file = copy(tmp_path)
    card = file.with_suffix(".toml")
    text, count = re.subn(before, after, card.read_text())
    assert count == 1
    card.write_text(text)
    with pytest.raises(ValueError, match=re.escape(complaint)) as error:
        read_card(file)
    assert str(error.value).startswith(f"{card}: ")


def test_a_missing_card(tmp_path: Path) -> None:
    file = copy(tmp_path)
    file.with_suffix(".toml").unlink()
    with pytest.raises(ValueError, match=r"elg-tsp.toml: elg-tsp.safetensors has no card"):
        read_card(file)
