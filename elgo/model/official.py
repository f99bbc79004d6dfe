"""Import of checkpoints of the published ELG code (lamda-bbo/ELG)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elgo.model.checkpoint import check_tensors, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy
from elgo.problem.task import ProblemName

# Names on the left are ours. The official TSP and CVRP networks name the same things differently.

_LAYER = {
    "combine": "multi_head_combine",
    "norm1": ("addAndNormalization1.norm", "add_n_normalization_1.norm"),
    "norm2": ("addAndNormalization2.norm", "add_n_normalization_2.norm"),
    "up": ("feedForward.W1", "feed_forward.W1"),
    "down": ("feedForward.W2", "feed_forward.W2"),
}
_LOCAL = {"embed": "init_emb", "query": "Wq", "key": "Wk", "value": "Wv", "combine": "multi_head_combine"}


def import_official(source: Path, target: Path) -> None:
    """Convert a checkpoint of the official ELG code (lamda-bbo/ELG) into a weights file.

    Only tensors are read (weights_only). The number of heads and K are not in such a file: the paper's are taken.
    """
    state = _read_official(source)
    try:
        policy = _convert(source, state)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:  # tensors of other shapes than such a file has
        line = str(error).splitlines()[0]
        raise ValueError(line if line.startswith(f"{source}:") else f"{source}: {line}") from None
    save_policy(target, policy, f"imported from a checkpoint of the official ELG code, {source.name}", np.float32)


def _read_official(source: Path) -> dict[str, Tensor]:
    if not source.is_file():
        raise ValueError(f"{source}: no such checkpoint")
    try:
        content: Any = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, from pickle, zip and its own
        reason = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"{source}: not a checkpoint that loads safely ({reason[0]})") from None
    state = content.get("model_state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{source}: model_state_dict is missing")
    return {str(name): value for name, value in state.items()}


def _convert(source: Path, state: dict[str, Tensor]) -> Policy:
    problem: ProblemName = "cvrp" if "encoder.embedding_depot.weight" in state else "tsp"
    local = "decoder.local_policies.0" if problem == "cvrp" else "decoder.local_policy_0"
    rest = dict(state)

    def take(name: str) -> Tensor:
        if name not in rest:
            raise ValueError(f"{source}: tensor {name!r} is missing")
        return rest.pop(name).float()

    out: dict[str, Tensor] = {}

    def copy(ours: str, theirs: str, *kinds: str) -> None:
        for kind in kinds:
            out[f"{ours}.{kind}"] = take(f"{theirs}.{kind}")

    both = ("weight", "bias")
    copy("global_.embed", "encoder.embedding_node" if problem == "cvrp" else "encoder.embedding", *both)
    if problem == "cvrp":
        copy("global_.embed_depot", "encoder.embedding_depot", *both)
    layers = len({name.split(".")[2] for name in state if name.startswith("encoder.layers.")})
    for i in range(layers):
        ours, theirs = f"global_.layers.{i}", f"encoder.layers.{i}"
        out[f"{ours}.qkv.weight"] = torch.cat([take(f"{theirs}.W{kind}.weight") for kind in "qkv"])
        for mine, names in _LAYER.items():
            copy(f"{ours}.{mine}", f"{theirs}.{names if isinstance(names, str) else names[problem == 'cvrp']}", *both)
    query = take("decoder.Wq_last.weight")
    out["global_.query_last.weight"] = query[:, : query.shape[0]]
    if problem == "cvrp":  # the load is the last input of the query
        out["global_.query_load.weight"] = query[:, query.shape[0] :]
    else:
        copy("global_.query_first", "decoder.Wq_first", "weight")
    copy("global_.key", "decoder.Wk", "weight")
    copy("global_.value", "decoder.Wv", "weight")
    copy("global_.combine", "decoder.multi_head_combine", *both)
    has_local = f"{local}.cur_token_emb" in state
    if has_local:
        out["local.context"] = take(f"{local}.cur_token_emb")
        if problem == "cvrp":  # the official code gives the depot features of 0, so that its token is the bias
            out["local.depot"] = state[f"{local}.init_emb.bias"].float()
        for mine, name in _LOCAL.items():
            copy(f"local.{mine}", f"{local}.{name}", *(both if mine in ("embed", "combine") else ("weight",)))
    if rest:
        raise ValueError(f"{source}: tensor {min(rest)!r} is unknown")
    return _official_policy(source, problem, layers, has_local, out)


def _official_policy(
    source: Path, problem: ProblemName, layers: int, has_local: bool, tensors: dict[str, Tensor]
) -> Policy:
    config = PolicyConfig(
        problem,
        width=tensors["global_.combine.bias"].shape[0],
        hidden=tensors["global_.layers.0.up.bias"].shape[0],
        layers=layers,
        local_policy=has_local,
        local_width=tensors["local.context"].shape[0] if has_local else PolicyConfig(problem).local_width,
    )
    policy = Policy(config)
    if not has_local:  # a checkpoint of the first stage: the local policy exists, untrained and switched off
        tensors |= {name: value for name, value in policy.state_dict().items() if name.startswith("local.")}
    expected = {name: tuple(value.shape) for name, value in policy.state_dict().items()}
    check_tensors(source, expected, {name: value.numpy() for name, value in tensors.items()})
    policy.load_state_dict(tensors)
    return policy
