"""Checkpoints of the published ELG code (lamda-bbo/ELG): import, export, and its config.yml."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elgo.model.checkpoint import check_tensors, load_policy, save_policy
from elgo.model.config import PolicyConfig, make_section
from elgo.model.ensemble import Policy
from elgo.model.global_policy import GlobalPolicy
from elgo.model.torch_file import read_torch_file
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_file, atomic_write
from elgo.problem.files.text import read_text

# Parts of our names, and what stands for them in the published TSP and CVRP networks; replaced one after the other.
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
    ("local.embed", "local.init_emb", "local.init_emb"),
    ("local.", "decoder.local_policy_0.", "decoder.local_policies.0."),
    (".query", ".Wq", ".Wq"),
    (".key", ".Wk", ".Wk"),
    (".value", ".Wv", ".Wv"),
)

_FIELDS = {  # of the published config.yml's model_params, and ours
    "head_num": "heads",
    "local_att_head_num": "local_heads",
    "logit_clipping": "clip",
    "distance_penalty": "penalty",
    "positional": "positional",
    "embedding_dim": "width",
    "encoder_layer_num": "layers",
    "ff_hidden_dim": "hidden",
    "local_att_hidden_dim": "local_width",
}

_GIVEN = ("neighbours", "heads", "xi", "clip", "penalty")  # what no checkpoint says,
_GIVEN_LOCAL = ("local_heads", "positional", "coordinates")  # and if it has a local policy


def import_official(source: Path, target: Path, given: dict[str, Any]) -> PolicyConfig:
    """Write a checkpoint of the published code as a weights file; return its config.

    Only tensors are read (weights_only). They say the sizes of the network; `given` are the fields of PolicyConfig that
    they do not say, such as those of `read_config`.
    """
    state = _read_tensors(source)
    try:
        policy = _make_policy(source, state, given)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:  # tensors of other shapes than such a file has
        line = str(error).splitlines()[0]
        raise ElgoError(line if line.startswith(f"{source}:") else f"{source}: {line}") from None
    save_policy(target, policy, f"imported from a checkpoint of the published ELG code, {source.name}", np.float32)
    return policy.config


def export_official(source: Path, target: Path) -> None:
    """Write a weights file as a checkpoint of the published code, and FILE.yml with its model_params beside it.

    ElgoError names what that network cannot express. How coordinates are normalised is not part of a checkpoint.
    """
    policy = load_policy(source)
    config = policy.config
    for name, value, only in (("global_policy", config.global_policy, True), ("local_layers", config.local_layers, 0)):
        if value != only:
            raise ElgoError(f"{source}: {name} is {value}, the published network has {only} alone")
    if config.has_depot and config.local_policy and not torch.equal(policy.local.depot, policy.local.embed.bias):
        raise ElgoError(f"{source}: local.depot is not local.embed.bias, which is the depot's token as published")
    with atomic_file(target) as file:
        torch.save({"model_state_dict": {name: x.clone() for name, x in _published_tensors(policy).items()}}, file)
    lines = [f"  {name}: {json.dumps(value).capitalize()}\n" for name, value in _published_config(config).items()]
    atomic_write(target.with_suffix(".yml"), "model_params:\n" + "".join(lines))


def read_config(path: Path) -> dict[str, Any]:
    """Return the fields of PolicyConfig in a published config.yml; ElgoError names what our network cannot express.

    Of YAML, it knows `name: value` in lines below `model_params:`, which is all that such a file has.
    """
    values: dict[str, Any] = {}
    inside = False
    for line in read_text(path, (".yml", ".yaml")).splitlines():
        name, _, text = line.split("#")[0].partition(":")
        if name.strip() and not name[0].isspace():
            inside = name == "model_params"
        elif name.strip() and inside:
            pattern = r"\[\d+\]" if name.strip() == "local_size" else r"True|False|-?\d+(\.\d+)?"
            if not re.fullmatch(pattern, text.strip()):
                raise ElgoError(f"{path}: {name.strip()} is {text.strip()}, which our network cannot express")
            values[name.strip()] = json.loads(text.lower())
    if not values:
        raise ElgoError(f"{path}: model_params is missing")
    return _own_fields(path, values)


def _own_fields(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return the model_params of a published config as fields of PolicyConfig."""
    names = {**_FIELDS, "local_size": "neighbours", "xi": "xi", "ensemble": "local_policy", "euclidean": "coordinates"}
    for name in names:
        if name not in values:
            raise ElgoError(f"{path}: {name} is missing from model_params")
    fixed = {
        "ensemble_size": 1,
        "demand": True,
        "qkv_dim": values["embedding_dim"] / max(values["head_num"], 1),
        "local_att_qkv_dim": values["local_att_hidden_dim"] / max(values["local_att_head_num"], 1),
    }
    for name, value in values.items():
        if name not in names | fixed or value != fixed.get(name, value):
            raise ElgoError(f"{path}: {name} is {json.dumps(value)}, which our network cannot express")
    fields = {ours: values[name] for name, ours in names.items()}
    coordinates = "euclidean" if values["euclidean"] else "polar"
    return fields | {"neighbours": values["local_size"][0], "xi": -values["xi"], "coordinates": coordinates}


def _published_config(config: PolicyConfig) -> dict[str, Any]:
    """Return the model_params of a published config.yml."""
    fields = {name: getattr(config, ours) for name, ours in _FIELDS.items()}
    return fields | {
        "ensemble": config.local_policy,
        "xi": -config.xi,
        "local_size": [config.neighbours],
        "ensemble_size": 1,
        "euclidean": config.coordinates == "euclidean",
        "qkv_dim": config.width // config.heads,
        "local_att_qkv_dim": config.local_width // config.local_heads,
        "demand": True,  # read by the code for CVRP alone
    }


def _read_tensors(source: Path) -> dict[str, Tensor]:
    content = read_torch_file(source)
    state = content.get("model_state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ElgoError(f"{source}: model_state_dict is missing")
    return {str(name): value.float() for name, value in state.items()}


def _make_policy(source: Path, state: dict[str, Tensor], given: dict[str, Any]) -> Policy:
    """Return the policy with the tensors of a checkpoint."""
    has_local = any(name.endswith(".cur_token_emb") for name in state)
    missing = [name for name in _GIVEN + _GIVEN_LOCAL * has_local if name not in given]
    if missing:
        raise ElgoError(f"the checkpoint does not say {', '.join(missing)}: give its config.yml, or these options")
    values = _sizes(source, state) | given | {"normalisation": "official"}
    values["local_policy"] = has_local and given.get("local_policy", True)
    policy = Policy(make_section(PolicyConfig, values, "config"))
    # A checkpoint of the first stage has no local policy: ours exists, untrained and switched off.
    expected = {name: tuple(value.shape) for name, value in _published_tensors(policy).items()}
    check_tensors(source, expected, {name: value.numpy() for name, value in state.items()})
    with torch.no_grad():
        for name, own in _published_tensors(policy).items():  # views of the parameters, but for the query of a CVRP
            own.copy_(state[name])
        if isinstance(policy.global_, GlobalPolicy) and policy.global_.query_load is not None:
            last, load = state["decoder.Wq_last.weight"].split([policy.config.width, 1], dim=1)
            policy.global_.query_last.weight.copy_(last)
            policy.global_.query_load.weight.copy_(load)
        if policy.config.has_depot and has_local:
            policy.local.depot.copy_(policy.local.embed.bias)
    return policy


def _sizes(source: Path, state: dict[str, Tensor]) -> dict[str, Any]:
    """Return the fields of PolicyConfig that follow from the tensors of a checkpoint."""
    cvrp = "encoder.embedding_depot.weight" in state

    def length(ours: str) -> int:
        name = _published_name(ours, cvrp)
        if name not in state:
            raise ElgoError(f"{source}: tensor {name!r} is missing")
        return len(state[name])

    has_local = any(name.endswith(".cur_token_emb") for name in state)
    return {
        "problem": "cvrp" if cvrp else "tsp",
        "width": length("global_.combine.bias"),
        "hidden": length("global_.layers.0.up.bias"),
        "layers": len({name.split(".")[2] for name in state if name.startswith("encoder.layers.")}),
        "local_width": length("local.context") if has_local else PolicyConfig.local_width,
    }


def _published_name(ours: str, cvrp: bool) -> str:
    for part, tsp_part, cvrp_part in _NAMES:
        ours = ours.replace(part, cvrp_part if cvrp else tsp_part)
    return ours


def _published_tensors(policy: Policy) -> dict[str, Tensor]:
    """Return the parameters by their published names: views of them, but for a CVRP's query of node and load."""
    cvrp, state = policy.config.has_depot, policy.state_dict()
    out: dict[str, Tensor] = {}
    for name, value in state.items():
        if name in ("global_.query_load.weight", "local.depot") or (
            name.startswith("local.") and not policy.config.local_policy
        ):
            continue
        if name.endswith(".qkv.weight"):
            for part, rows in zip(("query", "key", "value"), value.chunk(3), strict=True):
                out[_published_name(name.replace("qkv", part), cvrp)] = rows
        elif cvrp and name == "global_.query_last.weight":
            out["decoder.Wq_last.weight"] = torch.cat([value, state["global_.query_load.weight"]], dim=1)
        else:
            out[_published_name(name, cvrp)] = value
    return out
