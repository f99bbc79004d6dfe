"""`elgo models`: the list of models, and whether they are what their cards say."""

import re
import shutil
from pathlib import Path

import pytest
from commands import elgo_command, run

from elgo.model.cards import read_cards
from elgo.model.checkpoint import SHIPPED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one model of the package that takes the package's place."""
    for suffix in (".safetensors", ".toml"):
        shutil.copy(SHIPPED / f"elg-tsp{suffix}", tmp_path)
    monkeypatch.setattr("elgo.model.checkpoint.SHIPPED", tmp_path)
    return tmp_path


def change(folder: Path, before: str, after: str) -> None:
    card = folder / "elg-tsp.toml"
    text, count = re.subn(before, after, card.read_text())
    assert count == 1
    card.write_text(text)


def test_the_list() -> None:
    done = run("models")
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    for card in read_cards(SHIPPED):
        assert card.name in text
        assert f"{card.parameters:,} parameters" in text
        assert f"elgo train {card.facts.recipes[0]}" in text


def test_the_models_of_the_package_are_what_their_cards_say() -> None:
    done = elgo_command("models", "--verify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as in the card") == len(read_cards(SHIPPED))


def test_another_cost_is_exit_code_1(folder: Path) -> None:
    change(folder, r"cost = .*", "cost = 8.0")
    done = run("models", "--verify")
    assert done.exit_code == 1
    assert "OTHER COST: +0." in done.stdout


def test_another_file_is_exit_code_1(folder: Path) -> None:
    change(folder, r'sha256 = ".*', 'sha256 = "00"')
    done = run("models", "--verify")
    assert done.exit_code == 1
    assert "OTHER FILE: its SHA-256 is " in done.stdout


def test_a_wrong_card_is_one_line(folder: Path) -> None:
    change(folder, r'set = "TSP100"', 'set = "CVRP100"')
    done = run("models", "--verify")
    assert done.exit_code == 2
    assert done.stderr.strip().endswith("elg-tsp.toml: check.set is 'CVRP100', must be 'TSP100'")
