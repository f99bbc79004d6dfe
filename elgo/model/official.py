"""Import of checkpoints of the published ELG code (lamda-bbo/ELG)."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elgo.model.checkpoint import check_tensors, save_policy
from elgo.model.config import PolicyConfig
from elgo.model.ensemble import Policy

# Parts of our names, and what stands for them in the official TSP and CVRP networks; replaced one after the other.
_NAMES = (
    ("global_.embed_depot", "", "encoder.embedding_depot"),
    ("global_.embed", "encoder.embedding", "encoder.embedding_node"),
    ("global_.layers", "encoder.layers", "encoder.layers"),
    ("global_", "decoder", "decoder"),
    (".norm1", ".addAndNormalization1.norm", ".add_n_normalization_1.norm"),
    (".norm2", ".addAndNormalization2.norm", ".add_n_normalization_2.norm"),
    (".up", ".feedForward.W1", ".feed_forward.W1"),
    (".down", ".feedForward.W2", ".feed_forward.W2"),
    (".combine", ".multi_head_combine", ".multi_head_combine"),
    ("local.context", "local.cur_token_emb", "local.cur_token_emb"),
    ("local.depot", "", "local.init_emb.bias"),  # the official depot has features of 0, so that its token is the bias
    ("local.embed", "local.init_emb", "local.init_emb"),
    ("local.", "decoder.local_policy_0.", "decoder.local_policies.0."),
    (".query", ".Wq", ".Wq"),
    (".key", ".Wk", ".Wk"),
    (".value", ".Wv", ".Wv"),
)


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
    cvrp = "encoder.embedding_depot.weight" in state
    used: set[str] = set()

    def find(ours: str) -> Tensor:
        name = ours
        for part, tsp_part, cvrp_part in _NAMES:
            name = name.replace(part, cvrp_part if cvrp else tsp_part)
        if name not in state:
            raise ValueError(f"{source}: tensor {name!r} is missing")
        used.add(name)
        return state[name].float()

    has_local = any(name.endswith(".cur_token_emb") for name in state)
    config = PolicyConfig(
        "cvrp" if cvrp else "tsp",
        width=len(find("global_.combine.bias")),
        hidden=len(find("global_.layers.0.up.bias")),
        layers=len({name.split(".")[2] for name in state if name.startswith("encoder.layers.")}),
        local_policy=has_local,
        local_width=len(find("local.context")) if has_local else PolicyConfig.local_width,
    )
    policy = Policy(config)
    tensors: dict[str, Tensor] = {}
    for name, own in policy.state_dict().items():
        if name.startswith("local.") and not has_local:
            tensors[name] = own  # a checkpoint of the first stage: the local policy exists, untrained and switched off
        elif name.endswith(".qkv.weight"):
            tensors[name] = torch.cat([find(name.replace("qkv", part)) for part in ("query", "key", "value")])
        elif name == "global_.query_last.weight":
            tensors[name] = find(name)[:, : config.width]
        elif name == "global_.query_load.weight":  # the load is the last input of the official query
            tensors[name] = find("global_.query_last.weight")[:, config.width :]
        else:
            tensors[name] = find(name)
    for name in sorted(set(state) - used):
        raise ValueError(f"{source}: tensor {name!r} is unknown")
    expected = {name: tuple(value.shape) for name, value in policy.state_dict().items()}
    check_tensors(source, expected, {name: value.numpy() for name, value in tensors.items()})
    policy.load_state_dict(tensors)
    return policy
