"""Convert weights between this package and the code at commit 94b9b6b, which still trains them.

    python tools/convert_weights.py ours OLD.safetensors NEW.safetensors
    python tools/convert_weights.py theirs NEW.safetensors OLD.safetensors
    python tools/convert_weights.py checkpoint state.pt RUN/checkpoint.pt

Tensor names are the same on both sides. The old config has fields for networks that are gone: they are dropped if they
are switched off, and anything else is refused. `checkpoint` turns a state of the old imitation script (weights,
averaged weights, optimiser, step, CPU seconds) into a checkpoint of a run of `elgo train` with Muon.
This script goes when `elgo train` has taken over.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.numpy import save

from elgo.problem.files import atomic_file, atomic_write

GONE: dict[str, Any] = {
    "distance_bias": False,
    "log_temperature": False,
    "decoder_block": False,
    "local": "light",
    "kin": False,
}


def to_ours(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config without the fields that are gone; ValueError if one of them is in use."""
    for name, off in GONE.items():
        if config.get(name, off) != off:
            raise ValueError(f"{name} is {config[name]!r}: that network is gone, see docs/lp-guided-policy.md")
    return {name: value for name, value in config.items() if name not in GONE}


def to_theirs(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with the fields that are gone, switched off; ValueError if it has a newer one in use."""
    how = config.get("normalisation", "fit")
    if how != "fit":
        raise ValueError(f"normalisation is {how!r}: the old code knows 'fit' alone")
    return {name: value for name, value in config.items() if name != "normalisation"} | GONE


def convert(source: Path, target: Path, ours: bool) -> None:
    """Write the weights of `source` with the other side's config."""
    with safe_open(source, framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    config = json.loads(metadata["config"])
    metadata["config"] = json.dumps(to_ours(config) if ours else to_theirs(config))
    atomic_write(target, save(tensors, metadata))


def convert_checkpoint(source: Path, target: Path) -> None:
    """Write a state of the old imitation script as a checkpoint of `elgo train`."""
    import torch

    state = torch.load(source, weights_only=True)
    checkpoint = {
        "state": {"step": state["step"], "seconds": state["used"], "cpu_seconds": state["used"]},
        "joint": True,
        "policy": state["policy"],
        "average": state["average"],
        "optimiser": {"momentum": state["muon"], "adamw": state["adam"]},
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(target) as file:
        torch.save(checkpoint, file)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("to", choices=("ours", "theirs", "checkpoint"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    try:
        if given.to == "checkpoint":
            convert_checkpoint(given.source, given.target)
        else:
            convert(given.source, given.target, given.to == "ours")
    except (ValueError, OSError) as error:
        parser.exit(2, f"{given.source}: {error}\n")


if __name__ == "__main__":
    main()
