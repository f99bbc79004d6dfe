"""Import and export of the published code's checkpoints; tests/decode/test_parity.py compares what they compute."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from published import Params, Tensors, random_checkpoint
from samples import random_policy, small_config

from elgo.model.checkpoint import load_policy, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.official import export_official, import_official, read_config
from elgo.problem.task import PROBLEMS

SMALL = {"width": 16, "hidden": 24, "layers": 2, "local_width": 8}
GIVEN = {"neighbours": 9, "heads": 8, "xi": 1.0, "clip": 50.0, "penalty": True}
LOCAL = {"local_heads": 4, "positional": True, "coordinates": "polar"}


def imported(folder: Path, content: Any, given: dict[str, Any] | None = None) -> Policy:
    torch.save(content, folder / "official.pt")
    import_official(folder / "official.pt", folder / "ours.safetensors", GIVEN | LOCAL if given is None else given)
    return load_policy(folder / "ours.safetensors")


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_is_imported_is_exported_bit_for_bit(problem: str, ensemble: bool, tmp_path: Path) -> None:
    changes = {"xi": -1.5, "clip": 20.0, "heads": 4, "local_heads": 2, "positional": False, "euclidean": True}
    params = Params(problem, neighbours=7, ensemble=ensemble, **SMALL, **changes)
    state = random_checkpoint(params)
    (tmp_path / "config.yml").write_text(params.config_yml())
    policy = imported(tmp_path, {"model_state_dict": state, "step": 7}, read_config(tmp_path / "config.yml"))
    sizes = {"width": 16, "hidden": 24, "layers": 2, "local_width": 8}
    fields = {"neighbours": 7, "xi": 1.5, "clip": 20.0, "heads": 4, "local_heads": 2, "local_policy": ensemble}
    others = {"positional": False, "coordinates": "euclidean", "normalisation": "official"}
    assert policy.config == PolicyConfig(problem, **sizes, **fields, **others)

    export_official(tmp_path / "ours.safetensors", tmp_path / "again.pt")
    again = torch.load(tmp_path / "again.pt", weights_only=True)["model_state_dict"]
    assert again.keys() == state.keys()
    assert all(torch.equal(value, again[name]) for name, value in state.items())
    assert read_config(tmp_path / "again.yml") == read_config(tmp_path / "config.yml")


def test_a_trained_policy_is_exported_and_imported(tmp_path: Path) -> None:
    policy = random_policy(small_config("tsp", neighbours=6, normalisation="raw"))
    save_policy(tmp_path / "a.safetensors", policy, "by hand")
    export_official(tmp_path / "a.safetensors", tmp_path / "a.pt")
    config = import_official(tmp_path / "a.pt", tmp_path / "b.safetensors", read_config(tmp_path / "a.yml"))
    assert config == small_config("tsp", neighbours=6, normalisation="official")
    a, b = (load_policy(tmp_path / f"{name}.safetensors").state_dict() for name in "ab")
    assert all(torch.equal(value, b[name]) for name, value in a.items())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (small_config("tsp", global_policy=False), "global_policy is False, the published network has True alone"),
        (small_config("cvrp", local_layers=2), "local_layers is 2, the published network has 0 alone"),
        (small_config("cvrp"), "local.depot is not local.embed.bias, which is the depot's token as published"),
    ],
    ids=["global", "layers", "depot"],
)
def test_what_the_published_network_cannot_express(config: PolicyConfig, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_policy(file, random_policy(config), "by hand")
    with pytest.raises(ValueError, match=message) as caught:
        export_official(file, tmp_path / "a.pt")
    assert str(caught.value) == f"{file}: {message}"
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_depot_token_that_is_off_needs_no_place(tmp_path: Path) -> None:
    save_policy(tmp_path / "a.safetensors", random_policy(small_config("cvrp", local_policy=False)), "by hand")
    export_official(tmp_path / "a.safetensors", tmp_path / "a.pt")
    assert not any("local" in name for name in torch.load(tmp_path / "a.pt", weights_only=True)["model_state_dict"])


def test_what_a_checkpoint_does_not_say_must_be_given(tmp_path: Path) -> None:
    state = random_checkpoint(Params("tsp", **SMALL))
    with pytest.raises(ValueError, match=r"does not say neighbours, clip, positional: give its config\.yml"):
        imported(
            tmp_path, state, {k: v for k, v in (GIVEN | LOCAL).items() if k not in ("neighbours", "clip", "positional")}
        )
    first_stage = random_checkpoint(Params("tsp", **SMALL, ensemble=False))
    with pytest.raises(ValueError, match="does not say heads: give"):
        imported(tmp_path, first_stage, {k: v for k, v in GIVEN.items() if k != "heads"})
    assert not imported(tmp_path, first_stage, GIVEN).config.local_policy


def test_a_given_value_that_does_not_fit(tmp_path: Path) -> None:
    state = random_checkpoint(Params("tsp", **SMALL))
    for name, value, message in (
        ("width", 32, r"'encoder.embedding.weight' is \(16, 2\), must be \(32, 2\)"),
        ("layers", 3, "'encoder.layers.2.Wk.weight' is missing"),
        ("heads", 7, "width must be a multiple of heads"),
        ("xi", 0.5, "config.xi is 0.5"),
        ("local_policy", False, "tensor 'decoder.local_policy_0.Wk.weight' is unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            imported(tmp_path, state, GIVEN | LOCAL | {name: value})


# --- config.yml


@pytest.mark.parametrize(
    ("line", "other", "message"),
    [
        ("  local_size: [40]", "  local_size: [40, 20]", r"local_size is \[40, 20\], which our network cannot express"),
        ("  local_size: [40]", "  local_size: 40", "local_size is 40, which our network cannot express"),
        ("  ensemble_size: 1", "  ensemble_size: 2", "ensemble_size is 2, which our network cannot express"),
        ("  demand: True # [True, False]", "  demand: False", "demand is false, which our network cannot express"),
        ("  qkv_dim: 16", "  qkv_dim: 32", "qkv_dim is 32, which our network cannot express"),
        ("  local_att_qkv_dim: 8", "  local_att_qkv_dim: 4", "local_att_qkv_dim is 4, which"),
        ("  head_num: 8", "  head_num: eight", "head_num is eight, which our network cannot express"),
        ("  head_num: 8", "  head_num: 1.2.3", "head_num is 1.2.3, which our network cannot express"),
        ("  head_num: 8", "  dropout: 1", "head_num is missing from model_params"),
        ("  ensemble_size: 1", "  dropout: 1", "dropout is 1, which our network cannot express"),
        ("model_params:", "model:", "model_params is missing"),
    ],
)
def test_wrong_config_files(line: str, other: str, message: str, tmp_path: Path) -> None:
    text, file = Params("cvrp", neighbours=40).config_yml(), tmp_path / "config.yml"
    assert line in text
    file.write_text(text.replace(line, other))
    with pytest.raises(ValueError, match=message) as caught:
        read_config(file)
    assert str(caught.value).startswith(f"{file}: ")


# --- wrong checkpoints


def import_fails(tmp_path: Path, message: str) -> None:
    with pytest.raises(ValueError, match="official") as caught:
        import_official(tmp_path / "official.pt", tmp_path / "ours.safetensors", GIVEN | LOCAL)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'official.pt'}: ")
    assert message in line
    assert "\n" not in line
    assert not (tmp_path / "ours.safetensors").exists()


class Attack:
    """What unpickling would run."""

    def __reduce__(self) -> tuple:
        return Path("owned").touch, ()


def test_a_pickle_with_code_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"model_state_dict": random_checkpoint(Params("tsp", **SMALL)), "extra": Attack()}
    torch.save(content, tmp_path / "official.pt")
    import_fails(tmp_path, "not a checkpoint that loads safely")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("content", [None, [1, 2], {}, {"model_state_dict": {}}, {"model_state_dict": 3}, {"a": 3}])
def test_a_checkpoint_without_a_model(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "official.pt")
    import_fails(tmp_path, "model_state_dict is missing")


def test_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    import_fails(tmp_path, "no such checkpoint")
    for content in (b"", b"hello", b"PK\x03\x04" + b"x" * 50):
        (tmp_path / "official.pt").write_bytes(content)
        import_fails(tmp_path, "not a checkpoint that loads safely")


@pytest.mark.parametrize(
    ("problem", "name", "value", "message"),
    [
        ("tsp", "decoder.Wk.weight", None, "tensor 'decoder.Wk.weight' is missing"),
        ("tsp", "encoder.embedding.bias", None, "tensor 'encoder.embedding.bias' is missing"),
        ("cvrp", "decoder.local_policies.0.Wv.weight", None, "tensor 'decoder.local_policies.0.Wv.weight' is missing"),
        ("cvrp", "encoder.layers.1.feed_forward.W1.bias", None, "'encoder.layers.1.feed_forward.W1.bias' is missing"),
        ("tsp", "decoder.multi_head_combine.bias", None, "tensor 'decoder.multi_head_combine.bias' is missing"),
        ("tsp", "decoder.extra", torch.zeros(1), "tensor 'decoder.extra' is unknown"),
        ("cvrp", "decoder.local_policies.1.Wq.weight", torch.zeros(1), "'decoder.local_policies.1.Wq.weight' is unkn"),
        ("tsp", "decoder.Wk.weight", torch.zeros(3, 3), "is (3, 3), must be (16, 16)"),
        ("cvrp", "decoder.Wq_last.weight", torch.zeros(16, 16), "is (16, 16), must be (16, 17)"),
        ("tsp", "decoder.Wv.weight", torch.full((16, 16), math.nan), "has a number that is not finite"),
    ],
)
def test_a_wrong_tensor_is_named(
    problem: str, name: str, value: torch.Tensor | None, message: str, tmp_path: Path
) -> None:
    state: Tensors = random_checkpoint(Params(problem, **SMALL))
    if value is None:
        del state[name]
    else:
        state[name] = value
    torch.save({"model_state_dict": state}, tmp_path / "official.pt")
    import_fails(tmp_path, message)
