"""Weights files: round trips, one broken file per error, and the import of the official code's checkpoints."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import naive
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from samples import after, random_policy, random_task, random_walk, small_config

from elgo.model.checkpoint import load_model, load_policy, model_file, model_names, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.official import import_official
from elgo.problem.task import PROBLEMS, Task

Tensors = dict[str, torch.Tensor]


# --- weights files


@pytest.mark.parametrize(
    "config",
    [
        small_config("tsp"),
        small_config("cvrp"),
        small_config("cvrp", xi=1.5, penalty=False, positional=False, coordinates="euclidean"),
        small_config("tsp", global_policy=False, local_layers=2, neighbours=7),
        PolicyConfig("cvrp", local_policy=False),
    ],
    ids=["tsp", "cvrp", "ablations", "local", "paper"],
)
def test_round_trip(config: PolicyConfig, tmp_path: Path) -> None:
    policy = random_policy(config)
    save_policy(tmp_path / "exact.safetensors", policy, "by hand", np.float32)
    exact = load_policy(tmp_path / "exact.safetensors", config.problem)
    assert exact.config == config
    assert not exact.training
    assert exact.state_dict().keys() == policy.state_dict().keys()
    assert all(torch.equal(value, exact.state_dict()[name]) for name, value in policy.state_dict().items())
    save_policy(tmp_path / "half.safetensors", policy, "by hand")
    half = load_policy(tmp_path / "half.safetensors")
    for name, value in policy.state_dict().items():
        assert half.state_dict()[name].dtype == torch.float32
        torch.testing.assert_close(half.state_dict()[name], value, rtol=1e-3, atol=1e-6)
    sizes = [os.path.getsize(tmp_path / f"{kind}.safetensors") for kind in ("half", "exact")]
    assert sizes[0] < 0.7 * sizes[1]


def test_a_loaded_policy_gives_the_same_logits(tmp_path: Path) -> None:
    policy = random_policy(small_config("cvrp"))
    task = random_task(np.random.default_rng(0), "cvrp", 9)
    save_policy(tmp_path / "w.safetensors", policy, "by hand", np.float32)
    loaded = load_policy(tmp_path / "w.safetensors")
    walk = [3, 1]
    assert torch.equal(loaded.logits(*after(loaded, task, walk)), policy.logits(*after(policy, task, walk)))


def test_saving_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    for seed in (0, 1):
        save_policy(tmp_path / "w.safetensors", random_policy(small_config("tsp"), seed), "by hand", np.float32)
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]
    expected = random_policy(small_config("tsp"), 1).state_dict()
    assert all(torch.equal(expected[name], value) for name, value in load_file(tmp_path / "w.safetensors").items())


def test_a_model_is_found_by_name_or_file(tmp_path: Path) -> None:
    assert "elg" in model_names()
    for problem in PROBLEMS:
        assert model_file("elg", problem).name == f"elg-{problem}.safetensors"
        assert model_file("mine.safetensors", problem) == Path("mine.safetensors")
        assert load_model("elg", problem) is load_model("elg", problem)
        assert load_model("elg", problem).config == PolicyConfig(problem)
        assert load_model(f"elg-{problem}").config == PolicyConfig(problem)
    with pytest.raises(ValueError, match=r"model is 'elk'; there are elg, or name a FILE\.safetensors"):
        model_file("elk", "tsp")
    with pytest.raises(ValueError, match=r"model is 'elg'; there are elg-cvrp, elg-tsp, or name a FILE\.safetensors"):
        load_model("elg")


def test_what_is_a_policy_already_is_returned_itself() -> None:
    policy = random_policy(small_config("tsp"))
    assert load_model(policy) is policy
    assert load_model(policy, "tsp") is policy
    with pytest.raises(ValueError, match="the policy's problem is 'tsp', but the instance needs 'cvrp'"):
        load_model(policy, "cvrp")


def changed(name: str, value: torch.Tensor | None) -> Callable[[Tensors, dict], None]:
    def edit(tensors: Tensors, config: dict) -> None:
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value

    return edit


def configured(**changes: object) -> Callable[[Tensors, dict], None]:
    return lambda tensors, config: config.update(changes)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (changed("local.context", None), "tensor 'local.context' is missing"),
        (changed("local.extra", torch.zeros(2)), "tensor 'local.extra' is unknown"),
        (changed("local.context", torch.zeros(3)), "tensor 'local.context' is (3,), must be (16,)"),
        (changed("local.context", torch.full((16,), math.nan)), "tensor 'local.context' has a number that is not"),
        (changed("local.context", torch.full((16,), math.inf)), "tensor 'local.context' has a number that is not"),
        (configured(colour="red"), "unknown field config.colour; there are problem, neighbours,"),
        (configured(problem="vrptw"), "problem is 'vrptw', must be one of tsp, cvrp"),
        (configured(problem="cvrp"), "problem is 'cvrp', but the instance needs 'tsp'"),
        (configured(layers=0), "layers is 0, must be at least 1"),
        (configured(layers=3), "tensor 'global_.layers.2."),
        (configured(width=64), "tensor '"),
        (configured(width="wide"), "width is 'wide', must be int"),
        (configured(width=32.0), "width is 32.0, must be int"),
        (configured(neighbours=None), "neighbours is None, must be int"),
        (configured(penalty=1), "penalty is 1, must be bool"),
        (lambda tensors, config: config.pop("problem"), "problem"),
    ],
)
def test_a_broken_file_gives_one_line(edit: Callable, message: str, tmp_path: Path) -> None:
    policy = random_policy(small_config("tsp"))
    tensors, config = dict(policy.state_dict()), asdict(policy.config)
    edit(tensors, config)
    save_file(tensors, tmp_path / "w.safetensors", {"config": json.dumps(config), "training": "none"})
    refuses(tmp_path / "w.safetensors", message)


def refuses(file: Path, message: str) -> None:
    """Loading raises one line that begins with the file and contains the message."""
    with pytest.raises(ValueError, match=r".") as caught:
        load_policy(file, "tsp")
    line = str(caught.value)
    assert line.startswith(f"{file}: ")
    assert message in line
    assert "\n" not in line


@pytest.mark.parametrize("metadata", [None, {"training": "none"}])
def test_missing_config(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors", metadata)
    refuses(tmp_path / "w.safetensors", "config is missing")


@pytest.mark.parametrize("config", ["", "{", "[]", "3", "null"])
def test_config_that_is_no_object(config: str, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors", {"config": config})
    refuses(tmp_path / "w.safetensors", "config" if config in ("[]", "3", "null") else "")


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    refuses(tmp_path / "none.safetensors", "no such weights file")
    refuses(tmp_path, "")
    good = tmp_path / "good.safetensors"
    save_policy(good, random_policy(small_config("tsp")), "by hand")
    for content in (b"", b"hello", b"x" * 1000, good.read_bytes()[:-10], good.read_bytes()[:100]):
        bad = tmp_path / "bad.safetensors"
        bad.write_bytes(content)
        refuses(bad, "not a safetensors file")


# --- the official code
# Its forward pass by hand, with its own names. At import the paper's 8 and 4 heads, K and C are taken.

WIDTH, HIDDEN, LAYERS, LOCAL = 16, 24, 2, 8
HEADS, LOCAL_HEADS, CLIP = 8, 4, 50.0


def official_state(problem: str, local: bool = True) -> Tensors:
    """A state dict with the names and shapes of the official networks, in small."""
    rng = torch.Generator().manual_seed(0)
    state: Tensors = {}

    def add(name: str, outputs: int, inputs: int, bias: bool = True) -> None:
        state[f"{name}.weight"] = torch.randn(outputs, inputs, generator=rng) / math.sqrt(inputs)
        if bias:
            state[f"{name}.bias"] = torch.randn(outputs, generator=rng) / 2

    tsp = problem == "tsp"
    for name, inputs in (("embedding", 2),) if tsp else (("embedding_depot", 2), ("embedding_node", 3)):
        add(f"encoder.{name}", WIDTH, inputs)
    for i in range(LAYERS):
        layer = f"encoder.layers.{i}"
        for kind in ("Wq", "Wk", "Wv"):
            add(f"{layer}.{kind}", WIDTH, WIDTH, bias=False)
        add(f"{layer}.multi_head_combine", WIDTH, WIDTH)
        add(f"{layer}.{'feedForward' if tsp else 'feed_forward'}.W1", HIDDEN, WIDTH)
        add(f"{layer}.{'feedForward' if tsp else 'feed_forward'}.W2", WIDTH, HIDDEN)
        for norm in norm_names(problem):
            state[f"{layer}.{norm}.weight"] = 1 + torch.randn(WIDTH, generator=rng) / 4
            state[f"{layer}.{norm}.bias"] = torch.randn(WIDTH, generator=rng) / 4
    for name in ("Wq_first", "Wq_last", "Wk", "Wv") if tsp else ("Wq_last", "Wk", "Wv"):
        add(f"decoder.{name}", WIDTH, WIDTH + (name == "Wq_last" and not tsp), bias=False)
    add("decoder.multi_head_combine", WIDTH, WIDTH)
    if local:
        prefix = local_name(problem)
        add(f"{prefix}.init_emb", LOCAL, 2 if tsp else 3)
        state[f"{prefix}.cur_token_emb"] = torch.randn(LOCAL, generator=rng)
        for kind in ("Wq", "Wk", "Wv"):
            add(f"{prefix}.{kind}", LOCAL, LOCAL, bias=False)
        add(f"{prefix}.multi_head_combine", LOCAL, LOCAL)
    return state


def norm_names(problem: str) -> tuple[str, str]:
    if problem == "tsp":
        return "addAndNormalization1.norm", "addAndNormalization2.norm"
    return "add_n_normalization_1.norm", "add_n_normalization_2.norm"


def local_name(problem: str) -> str:
    return "decoder.local_policy_0" if problem == "tsp" else "decoder.local_policies.0"


def official_encoder(w: Mapping[str, np.ndarray], task: Task) -> list[np.ndarray]:
    problem = "tsp" if task.demand is None else "cvrp"
    if task.demand is None:
        rows = [naive.linear(w, "encoder.embedding", xy) for xy in task.coords]
        feed = "feedForward"
    else:
        rows = [naive.linear(w, "encoder.embedding_depot", task.coords[0])]
        for xy, demand in zip(task.coords[1:], task.demand[1:], strict=True):
            rows.append(naive.linear(w, "encoder.embedding_node", np.array([*xy, demand / task.capacity])))
        feed = "feed_forward"
    for i in range(LAYERS):
        layer = f"encoder.layers.{i}"
        q, k, v = ([naive.linear(w, f"{layer}.{kind}", row) for row in rows] for kind in ("Wq", "Wk", "Wv"))
        mixed = [naive.linear(w, f"{layer}.multi_head_combine", naive.attend(one, k, v, HEADS)) for one in q]
        first, second = ((w[f"{layer}.{norm}.weight"], w[f"{layer}.{norm}.bias"]) for norm in norm_names(problem))
        rows = naive.instance_norm([row + m for row, m in zip(rows, mixed, strict=True)], *first)
        fed = [np.maximum(naive.linear(w, f"{layer}.{feed}.W1", row), 0) for row in rows]
        fed = [naive.linear(w, f"{layer}.{feed}.W2", x) for x in fed]
        rows = naive.instance_norm([row + x for row, x in zip(rows, fed, strict=True)], *second)
    return rows


def official_probabilities(state: Tensors, task: Task, chosen: Sequence[int]) -> np.ndarray:
    """Of all nodes. In the official code the depot's distance is set to infinity before the neighbours are taken, and
    then, as padding, its distance, angle and penalty to 0."""
    w = {name: value.double().numpy() for name, value in state.items()}
    rows, nodes = official_encoder(w, task), naive.valid_nodes(task, chosen)
    tsp = task.demand is None
    if tsp:
        query = w["decoder.Wq_first.weight"] @ rows[chosen[0]] + w["decoder.Wq_last.weight"] @ rows[chosen[-1]]
    else:
        load = naive.load_left(task, chosen)
        query = w["decoder.Wq_last.weight"] @ np.append(rows[chosen[-1]], load / task.capacity)
    k, v = ([naive.linear(w, f"decoder.{kind}", rows[node]) for node in nodes] for kind in ("Wk", "Wv"))
    glimpse = naive.linear(w, "decoder.multi_head_combine", naive.attend(query, k, v, HEADS))
    scores = {node: glimpse @ rows[node] / math.sqrt(WIDTH) for node in nodes}

    near = naive.neighbourhood(task, chosen, 30 if tsp else 40)
    offsets = {node: task.coords[node] - task.coords[chosen[-1]] for node in nodes}
    features = {}
    if 0 in nodes and not tsp:
        features[0] = [0.0, 0.0, 0.0]
    for node, rho in near:
        features[node] = [rho / naive.radius(near), math.atan2(*offsets[node][::-1])]
        if not tsp:
            features[node].append(task.demand[node] / load)
    for node in nodes:  # every node of these tasks is in the neighbourhood
        scores[node] -= features[node][0]

    local = local_name("tsp" if tsp else "cvrp")
    if f"{local}.cur_token_emb" in w:
        tokens = [
            naive.linear(w, f"{local}.init_emb", np.array(x)) + naive.positional_encoding(rank, LOCAL)
            for rank, x in enumerate(features.values(), start=0 if tsp or 0 in features else 1)
        ]
        k, v = ([naive.linear(w, f"{local}.{kind}", h) for h in tokens] for kind in ("Wk", "Wv"))
        query = naive.linear(w, f"{local}.Wq", w[f"{local}.cur_token_emb"])
        mixed = naive.linear(w, f"{local}.multi_head_combine", naive.attend(query, k, v, LOCAL_HEADS))
        for node, h in zip(features, tokens, strict=True):
            scores[node] += mixed @ h / math.sqrt(LOCAL)
    out = np.zeros(len(task.coords))
    out[nodes] = naive.softmax([CLIP * math.tanh(scores[node]) for node in nodes])
    return out


def imported(tmp_path: Path, content: Any) -> Policy:
    torch.save(content, tmp_path / "official.pt")
    import_official(tmp_path / "official.pt", tmp_path / "ours.safetensors")
    return load_policy(tmp_path / "ours.safetensors")


def compare(policy: Policy, state: Tensors) -> None:
    rng = np.random.default_rng(1)
    for n in (5, 14):
        task = random_task(rng, policy.config.problem, n)
        if task.demand is not None:  # the official code divides by the load, so it must not be 0
            task = task._replace(demand=np.where(np.arange(n) > 0, 1 + task.demand % 5, 0), capacity=5 * n)
        for steps in (1, 3, n - 2):
            walk = random_walk(rng, task, steps)
            found = policy.logits(*after(policy, task, walk))[0, 0].softmax(-1).detach().numpy()
            np.testing.assert_allclose(found, official_probabilities(state, task, walk), atol=5e-4)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_import(problem: str, local: bool, tmp_path: Path) -> None:
    """Every tensor ends up where it belongs; without a local policy the file is of the first training stage."""
    state = official_state(problem, local)
    policy = imported(tmp_path, {"model_state_dict": state, "step": 7})
    config = policy.config
    assert (config.problem, config.layers, config.width, config.hidden) == (problem, LAYERS, WIDTH, HIDDEN)
    assert (config.heads, config.local_heads, config.neighbours) == (8, 4, 30 if problem == "tsp" else 40)
    assert config.local_policy == local
    compare(policy, state)


def test_import_of_a_bare_state_dict(tmp_path: Path) -> None:
    state = official_state("tsp")
    compare(imported(tmp_path, state), state)


def import_fails(tmp_path: Path, message: str) -> None:
    with pytest.raises(ValueError, match="official") as caught:
        import_official(tmp_path / "official.pt", tmp_path / "ours.safetensors")
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
    torch.save({"model_state_dict": official_state("tsp"), "extra": Attack()}, tmp_path / "official.pt")
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
        ("tsp", "decoder.extra", torch.zeros(1), "tensor 'decoder.extra' is unknown"),
        ("cvrp", "decoder.local_policies.1.Wq.weight", torch.zeros(1), "'decoder.local_policies.1.Wq.weight' is unkn"),
        ("tsp", "decoder.Wk.weight", torch.zeros(3, 3), "is (3, 3), must be (16, 16)"),
        ("tsp", "decoder.Wv.weight", torch.full((16, 16), math.nan), "has a number that is not finite"),
    ],
)
def test_a_wrong_tensor_is_named(
    problem: str, name: str, value: torch.Tensor | None, message: str, tmp_path: Path
) -> None:
    state = official_state(problem)
    changed(name, value)(state, {})
    torch.save({"model_state_dict": state}, tmp_path / "official.pt")
    import_fails(tmp_path, message)
