"""Ablations: the configs of a small budget, and two variants from training to the table."""

from pathlib import Path

import pytest
import small

from elgo.bench.ablations import VARIANTS, make_variants, measure_variants
from elgo.bench.methods import Options
from elgo.bench.sets import load_set
from elgo.bench.tables import Table
from elgo.train.loop import train

TINY = [
    *(f"policy.{name}={value}" for name, value in {"width": 16, "heads": 2, "layers": 1, "hidden": 16}.items()),
    *("policy.local_width=8", "policy.local_heads=2"),
    *("method=reinforce", "data.sizes=8", "data.batch=2", "reinforce.starts=3"),
]


def test_variants_are_the_packages_configs() -> None:
    from elgo.train.config import named_configs

    assert {name for name in named_configs() if name.startswith("ablation-")} == set(VARIANTS) - {"paper-tsp"}


def test_a_small_budget() -> None:
    configs = make_variants(["ablation-no-penalty", "ablation-local-only"], 70, [])
    config = configs["ablation-no-penalty"]
    assert (config.train.steps, config.train.global_steps, config.method_name) == (70, 35, "imitate")
    assert config.policy.penalty is False
    assert config.validation.sets == ()
    assert configs["ablation-local-only"].train.global_steps == 0
    assert make_variants(["paper-tsp"], 70, ["method=reinforce"])["paper-tsp"].method_name == "reinforce"
    with pytest.raises(ValueError, match="--variants has 'k-20'; there are paper-tsp, ablation-no-penalty"):
        make_variants(["k-20"], 70, [])


def test_from_training_to_the_table(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    found = load_set("tsplib", small.tsplib(tmp_path / "tsplib", ["eil51", "berlin52"]))
    configs = make_variants(["paper-tsp", "ablation-xi-2"], 2, TINY)

    def table() -> Table:
        weights = {name: train(config, tmp_path / name, tmp_path / "data") for name, config in configs.items()}
        return measure_variants(configs, weights, "2x1", found, Options(), tmp_path / "out")

    made = table()
    assert made.header == ("", "all 49 (published)", "<=200", "all")
    assert [row[:2] for row in made.rows] == [("ELG (xi = 1, K = 30)", "3.08"), ("xi = 2", "3.31")]
    assert "reinforce, 2 steps of 2 instances with N = 8, uniform, seed 0" in made.notes[0]
    assert (tmp_path / "out" / "ablations.md").is_file()
    assert table() == made  # nothing is trained or measured twice
