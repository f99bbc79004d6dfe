"""Configs: what comes with the package, overrides, and one line for each mistake."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import elgo.cli.main
from elgo.model.checkpoint import model_file, read_weights
from elgo.model.ensemble import Policy
from elgo.train.config import (
    Config,
    DataConfig,
    ImitationConfig,
    ReinforceConfig,
    TrainConfig,
    load_config,
    make_config,
    named_configs,
    parse_set,
    to_json,
)

ABLATIONS = {
    "ablation-no-penalty": {"penalty": False},
    "ablation-no-positional": {"positional": False},
    "ablation-euclidean": {"coordinates": "euclidean"},
    "ablation-xi-1.5": {"xi": 1.5},
    "ablation-xi-2": {"xi": 2.0},
    "ablation-k-20": {"neighbours": 20},
    "ablation-k-40": {"neighbours": 40},
    "ablation-k-50": {"neighbours": 50},
    "ablation-local-only": {"global_policy": False, "penalty": False, "local_layers": 3, "local_width": 128},
    "ablation-global-only": {"local_policy": False, "penalty": False},
}


def test_the_paper_s_recipe() -> None:
    for name, first, second in (
        ("paper-tsp", 30, 5),
        ("paper-cvrp", 20, 5),
        ("paper-tsp-star", 30, 5),
        ("paper-cvrp-star", 40, 5),
    ):
        config = load_config(name)
        train, epoch = config.train, 1_200_000 // config.data.batch
        assert (train.global_steps, train.steps) == (first * epoch, (first + second) * epoch)
        assert (train.optimiser, train.lr, train.weight_decay) == ("adam", 1e-4, 1e-6)
        assert (config.data.batch, config.data.sizes) == (120, "100")
        assert config.method == ReinforceConfig(starts=0, confidence_threshold=1.0)
        assert (train.schedule, train.clip_norm, train.ema) == ("constant", 0, 0)
        assert (config.policy.xi, config.policy.clip) == (1.0, 50.0)
        assert config.policy.normalisation == "raw"
        assert config.policy.neighbours == (30 if "tsp" in name else 40)
        assert parse_set(config.validation.best_on)[:2] == ("uniform", 200)
        if "star" in name:
            assert config.data.distribution == "adaptive"
            assert [parse_set(text)[0] for text in config.validation.sets[:3]] == ["uniform", "cluster", "mixture"]
        else:
            assert config.data.distribution == "uniform"
            assert [parse_set(text)[1] for text in config.validation.sets] == [100, 200, 500]


def test_the_recipe_at_20_nodes_differs_from_the_paper_s_in_size_alone() -> None:
    small, paper = load_config("paper-tsp-20"), load_config("paper-tsp")
    assert small.policy == replace(paper.policy, neighbours=6)
    assert small.train == replace(paper.train, global_steps=8000, steps=16000)
    assert small.data == replace(paper.data, sizes="20", batch=60)
    pomo, wide = load_config("paper-tsp-20-pomo"), load_config("paper-tsp-20-k-30")
    assert replace(pomo, policy=replace(pomo.policy, local_policy=True, penalty=True)) == small
    assert replace(wide, policy=replace(wide.policy, neighbours=6)) == small


def test_the_number_of_parameters() -> None:
    """As docs/method.md states it: three layers of width 128 are half of the global policy, not as many."""
    for name, in_global, in_local in (
        ("paper-tsp", 1_269_760, 4_256),
        ("paper-cvrp", 1_254_016, 4_320),
        ("ablation-local-only", 0, 659_840),
    ):
        policy = Policy(load_config(name).policy)
        nets = (policy.global_, policy.local)
        assert [sum(x.numel() for x in net.parameters()) if net else 0 for net in nets] == [in_global, in_local]


def test_each_ablation_changes_only_its_fields() -> None:
    assert {name for name in named_configs() if name.startswith("ablation")} == set(ABLATIONS)
    paper = load_config("paper-tsp")
    for name, changes in ABLATIONS.items():
        config = load_config(name)
        differing = {
            field: value for field, value in vars(config.policy).items() if value != getattr(paper.policy, field)
        }
        assert differing == changes
        assert config.data == paper.data
        assert config.validation == paper.validation


def test_recipes_of_the_shipped_weights() -> None:
    for problem, lr in (("tsp", 2e-3), ("cvrp", 2.5e-3)):
        first, second = load_config(f"elg-{problem}"), load_config(f"elg-{problem}-reinforce")
        assert (first.method_name, second.method_name) == ("imitate", "reinforce")
        assert first.policy == second.policy == read_weights(model_file("elg", problem)).config
        train = first.train
        assert (train.steps, train.minutes, train.schedule) == (0, 0.0, "constant")  # until it is stopped, then cooled
        assert (train.optimiser, train.lr, train.adamw_lr) == ("muon", lr, 5e-4)
        assert second.train.init == f"runs/elg-{problem}-cooled/last.safetensors"
    third = load_config("elg-cvrp-reinforce-large")
    assert (third.train.steps, third.train.minutes, third.train.schedule) == (0, 0.0, "constant")
    assert third.train.init == "runs/elg-cvrp-reinforce/last.safetensors"


def test_json_gives_every_config_back() -> None:
    for name in named_configs():
        config = load_config(name)
        assert make_config(json.loads(to_json(config))) == config


def test_overrides_are_toml_or_bare_words() -> None:
    sets = ["train.lr=1", "data.sizes=50-70", "imitate.labels=a.npz", "train.schedule=linear", "policy.penalty=false"]
    config = load_config("paper-tsp", [*sets, "method = imitate"])
    assert config.train.lr == 1.0
    assert isinstance(config.train.lr, float)
    assert (config.data.sizes, config.method) == ("50-70", ImitationConfig(labels=("a.npz",)))
    assert (config.train.schedule, config.policy.penalty) == ("linear", False)
    assert load_config("paper-tsp", ["data.sizes=70"]).data.sizes == "70"
    config = load_config("paper-tsp", ["method=imitate", 'imitate.labels=["a", "b"]'])
    assert config.method == ImitationConfig(labels=("a", "b"))


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[policy]\nproblem = "cvrp"\n[train]\nminutes = 2\n')
    config = load_config(str(file))
    assert config == Config(config.policy, DataConfig(), ReinforceConfig(), TrainConfig(minutes=2.0))
    assert config.policy.problem == "cvrp"


def test_a_base_and_the_differences_from_it(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(
        'base = "paper-tsp"\nmethod = "imitate"\ntrain.lr = 3e-4\n[imitate]\nreuse = 5\n'
    )
    (tmp_path / "two.toml").write_text('base = "one.toml"\ntrain.seed = 7\n[imitate]\nsequences = 3\n')
    paper, config = load_config("paper-tsp"), load_config(str(tmp_path / "two.toml"))
    assert config.train == replace(paper.train, lr=3e-4, seed=7)
    assert config.method == ImitationConfig(sequences=3, reuse=5)
    assert (config.policy, config.data, config.validation) == (paper.policy, paper.data, paper.validation)
    for text, message in (
        ('base = "paper-vrp"', "base is 'paper-vrp': no such config; there are"),
        ('base = "three.toml"', "three.toml is its own base"),
        ('base = "paper-tsp"\ntrain = 3', "train is 3, must be a section"),
    ):
        (tmp_path / "three.toml").write_text(text)
        with pytest.raises(ValueError, match=r"three\.toml: .*") as caught:
            load_config(str(tmp_path / "three.toml"))
        assert message in str(caught.value)


MISTAKES = {
    "data.colour=1": "unknown field data.colour",
    "model.width=1": "unknown section 'model'",
    "width=1": "--set 'width=1': write section.field=value",
    "policy.width": "--set 'policy.width': write section.field=value",
    "train.lr=fast": "train.lr is 'fast', must be float",
    "train.lr=0": "train.lr is 0.0",
    "train.lr=nan": "train.lr is nan",
    "train.steps=1.5": "train.steps is 1.5, must be int",
    "train.seed=true": "train.seed is True, must be int",
    "train.seed=-1": "train.seed is -1, must be at least 0",
    "train.amp=1": "train.amp is 1, must be bool",
    "train.ema=1": "train.ema is 1.0",
    "train.ema=nan": "train.ema is nan, must be at least 0",
    "train.minutes=2": "train.steps is 350000 and minutes is 2: set one of them",
    "train.adamw_lr=0": "train.adamw_lr is 0.0, must be positive",
    "method=guess": "method is 'guess', must be one of reinforce, imitate",
    "method.name=x": "method is 'reinforce', must be a section",
    "reinforce.starts=-1": "reinforce.starts is -1, must be at least 0",
    "reinforce.labels=a": "unknown field reinforce.labels; there are starts, confidence_threshold",
    "reinforce.confidence_threshold=0": "reinforce.confidence_threshold is 0.0, must be greater than 0",
    "imitate.reuse=0": "imitate.reuse is 0, must be at least 1",
    "train.optimiser=sgd": "train.optimiser is 'sgd', must be one of adam, adamw, muon",
    "train.schedule=cosine": "train.schedule is 'cosine', must be one of constant, linear",
    "data.batch=0": "data.batch is 0, must be at least 1",
    "imitate.labels=[1]": "imitate.labels is [1], must be a list of strings",
    "data.sizes=many": "data.sizes is 'many'",
    "data.sizes=1": "data.sizes is '1', must be at least 2",
    "data.distribution=sparse": "data.distribution has 'sparse', which is none of uniform,",
    "validation.sets=uniform-100": "validation.sets has 'uniform-100'; write DISTRIBUTION-N-COUNT",
    "validation.sets=sparse-100-3": "validation.sets has 'sparse'",
    "validation.best_on=uniform-9-9": "validation.best_on is 'uniform-9-9', must be one of validation.sets: ",
    "validation.sets=uniform-100-3": "validation.best_on is 'uniform-200-100', must be one of validation.sets: ",
    "validation.starts=0": "validation.starts is 0, must be at least 1",
    "policy.heads=7": "policy.width must be a multiple of heads",
    "policy.problem=vrptw": "policy.problem is 'vrptw'",
    "policy.global_policy=false": "train.global_steps is 300000, but policy.global_policy is off",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_override_is_one_line_and_exit_code_2(mistake: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        elgo.cli.main.app, ["train", "paper-tsp", "--folder", str(tmp_path / "run"), "--set", mistake]
    )
    assert done.exit_code == 2
    assert done.stderr.startswith(f"elgo: paper-tsp: {MISTAKES[mistake]}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_other_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    for text, message in (
        ("policy = 3", "policy is 3, must be a section"),
        ("[train]\nsteps = 1", "policy.problem is missing"),
        ("[policy", "Expected ']'"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"x\.toml: .*") as caught:
            load_config(str(file))
        assert message in str(caught.value)
    with pytest.raises(ValueError, match=r"paper-vrptw: no such config; there are .*paper-tsp"):
        load_config("paper-vrptw")
    with pytest.raises(ValueError, match=r"validation\.sets must name the sets"):
        load_config("paper-tsp-star", ["validation.sets=[]"])
    with pytest.raises(ValueError, match=r"train\.schedule is 'linear', which needs steps or minutes"):
        load_config("elg-tsp", ["train.schedule=linear"])
    with pytest.raises(ValueError, match="must be one name if method is 'imitate'"):
        load_config("paper-tsp-star", ["method=imitate"])
    done = CliRunner().invoke(elgo.cli.main.app, ["train", "paper-tsp", "--steps", "3", "--minutes", "1"])
    assert done.exit_code == 2
    assert done.stderr == "elgo: --minutes and --steps are both given; a run ends by one of them\n"


def test_several_distributions() -> None:
    for changes, message in (
        (["data.distribution=set_x,moon"], r"data\.distribution has 'moon'"),
        (["data.distribution=set_x,uniform", "method=imitate"], r"must be one name if method is 'imitate'"),
    ):
        with pytest.raises(ValueError, match=message):
            load_config("paper-cvrp", changes)
