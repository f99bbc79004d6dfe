"""Imported checkpoints give the probabilities and tours of the published code, from the file to the actions."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from published import Params, Published, Tensors, random_checkpoint, scaled
from samples import random_points, random_policy

from elgo.decode.decoder import DecodeConfig, decode
from elgo.decode.multistart import augmentations
from elgo.model.checkpoint import load_policy, model_file, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.model.env import make_batch
from elgo.model.official import export_official, import_official, read_config
from elgo.problem.files import read
from elgo.problem.instance import Instance, Metric
from elgo.problem.task import ProblemName

SETTINGS = {
    "published": {},
    "first stage": {"ensemble": False},
    "others": {"neighbours": 6, "xi": -1.5, "clip": 10.0, "heads": 4, "local_heads": 2, "layers": 2, "width": 32},
    "ablations": {"penalty": False, "positional": False, "euclidean": True, "layers": 2, "hidden": 64},
}


def imported(folder: Path, params: Params, tensors: Tensors) -> Policy:
    """The checkpoint as `elgo import-weights` reads it."""
    torch.save({"model_state_dict": tensors, "step": 7}, folder / "x.pt")
    (folder / "config.yml").write_text(params.config_yml())
    import_official(folder / "x.pt", folder / "x.safetensors", read_config(folder / "config.yml"))
    return load_policy(folder / "x.safetensors", params.problem)


def compare(
    policy: Policy, params: Params, tensors: Tensors, instance: Instance, most: int = 20, tolerance: float = 1e-4
) -> None:
    """Compare probabilities along the published tours, and the tours of both decoders; from up to `most` starts."""
    (task,), (starts,) = augmentations(instance, policy.config.normalisation, None, 1, 0)
    assert starts.tolist() == list(range(instance.customers))  # 0 to N - 1: in CVRP the depot, not the last customer
    starts = starts[np.linspace(0, len(starts) - 1, min(most, len(starts))).astype(int)]
    inside = instance.coords.max() <= 1
    nodes = instance.coords if inside else scaled(instance.problem, instance.coords)
    demand = None if instance.demand is None else instance.demand / instance.capacity
    actions, expected = Published(params, tensors, nodes, demand).greedy(starts)

    batch = make_batch([task])
    steps = torch.arange(1, actions.shape[1])
    with torch.inference_mode():
        state = policy.env.along(batch, actions[None], steps)
        found = policy.logits(policy.encode(batch), state).softmax(-1)[0].view(expected.shape)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)
    for path in ("torch", "compiled"):
        (made,) = decode(policy, [task], [starts], DecodeConfig(path=path, threads=1))
        np.testing.assert_array_equal(made.actions, actions[:, : made.actions.shape[1]])
        assert not actions[:, made.actions.shape[1] :].any()  # waits at the depot


def make_instance(problem: ProblemName, points: np.ndarray, seed: int, metric: Metric = Metric.EUC_2D) -> Instance:
    if problem == "tsp":
        return Instance("x", points, metric)
    demand = np.random.default_rng(seed).integers(1, 10, len(points))
    demand[0] = 0
    return Instance("x", points, metric, demand=demand.astype(float), capacity=25)


def stand_ins(problem: ProblemName) -> Iterator[Instance]:
    """Raw coordinates of the unit square, and whole numbers as in TSPLIB: a wide one, one with many equal distances."""
    rng = np.random.default_rng(5)
    yield make_instance(problem, 0.1 + 0.7 * random_points(rng, 24), 1, Metric.EXACT)
    yield make_instance(problem, np.rint(random_points(rng, 30, "clustered") * [3000, 900] + [40, 2000]), 2)
    yield make_instance(problem, 100 * (1 + np.rint(9 * random_points(rng, 25, "lattice"))), 3)


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_random_checkpoints(problem: ProblemName, changes: dict, tmp_path: Path) -> None:
    params = Params(problem, **({"neighbours": 40 if problem == "cvrp" else 30} | changes))
    tensors = random_checkpoint(params)
    policy = imported(tmp_path, params, tensors)
    assert policy.config.normalisation == "official"
    for instance in stand_ins(problem):
        compare(policy, params, tensors, instance)


def there_and_back(folder: Path, policy: Policy) -> tuple[Policy, Params, Tensors]:
    """One of our policies, exported to the published code and imported."""
    save_policy(folder / "ours.safetensors", policy, "by hand")
    export_official(folder / "ours.safetensors", folder / "x.pt")
    tensors = torch.load(folder / "x.pt", weights_only=True)["model_state_dict"]
    import_official(folder / "x.pt", folder / "x.safetensors", read_config(folder / "x.yml"))
    params = Params(policy.config.problem, policy.config.neighbours)
    return load_policy(folder / "x.safetensors", policy.config.problem), params, tensors


PAPER_20 = PolicyConfig("tsp", neighbours=6, normalisation="raw")


def test_the_network_of_paper_tsp_20(tmp_path: Path) -> None:
    again = there_and_back(tmp_path, random_policy(PAPER_20, 3))
    for instance in stand_ins("tsp"):
        compare(*again, instance)


def test_the_network_of_paper_tsp_20_on_tsplib(tmp_path: Path, data: Path) -> None:
    compare(*there_and_back(tmp_path, random_policy(PAPER_20, 3)), read(data / "tsplib" / "st70.tsp"))


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_trained_networks(problem: ProblemName, tmp_path: Path) -> None:
    """The shipped ones, in CVRP with the depot's token that the published network has."""
    policy = load_policy(model_file("elg", problem))
    if problem == "cvrp":
        policy.local.depot.data.copy_(policy.local.embed.bias)
    again = there_and_back(tmp_path, policy)
    for instance in stand_ins(problem):  # their scores are large: by float32 alone probabilities are off by up to 2e-3
        compare(*again, instance, tolerance=5e-3)


@pytest.mark.parametrize("file", ["tsplib/eil51.tsp", "tsplib/berlin52.tsp", "tsplib/pr76.tsp"])
def test_random_checkpoints_on_tsplib(file: str, data: Path, tmp_path: Path) -> None:
    params = Params("tsp")
    tensors = random_checkpoint(params, 1)
    compare(imported(tmp_path, params, tensors), params, tensors, read(data / file))


@pytest.mark.parametrize("name", ["X-n101-k25", "X-n106-k14", "X-n110-k13"])
def test_random_checkpoints_on_set_x(name: str, data: Path, tmp_path: Path) -> None:
    params = Params("cvrp", neighbours=40)
    tensors = random_checkpoint(params, 1)
    instance = read(data / "cvrplib" / "X" / f"{name}.vrp")
    compare(imported(tmp_path, params, tensors), params, tensors, instance, most=8)
