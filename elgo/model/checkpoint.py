"""Weights on disk: safetensors with the config in the header. They are a model without torch; a Policy needs torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from elgo.model.config import PolicyConfig, make_section
from elgo.model.device import find_device, is_gpu, require_torch
from elgo.model.shapes import local_shapes, tensor_shapes
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write, parse_json, printable
from elgo.problem.task import ProblemName

if TYPE_CHECKING:
    from elgo.model.ensemble import Policy
    from elgo.model.protocols import MakeGlobalPolicy, PolicyLike

SHIPPED = Path(__file__).parent / "weights"
DTYPES = ("F16", "F32", "F64")  # of tensors in weights files


Model: TypeAlias = "Weights | PolicyLike"


@dataclass(frozen=True, eq=False)
class Weights:
    """The content of a weights file: a model that runs on a CPU without torch."""

    config: PolicyConfig
    tensors: Mapping[str, NDArray[np.float32]]
    training: str = ""  # how they were trained, in a sentence

    def __repr__(self) -> str:
        return f"Weights({self.config.problem}, {sum(x.size for x in self.tensors.values())} parameters)"


def model_names() -> list[str]:
    """Return the names of the models in the package; each has a file NAME-PROBLEM.safetensors per problem."""
    return sorted({file.stem.rsplit("-", 1)[0] for file in SHIPPED.glob("*.safetensors")})


def model_file(name: str | Path, problem: ProblemName | None = None) -> Path:
    """Return the file of a model of the package, by name and problem or as "elg-tsp"; or FILE.safetensors itself."""
    if Path(name).suffix == ".safetensors":
        return Path(name)
    shipped = {file.stem: file for file in SHIPPED.glob("*.safetensors")}
    for stem in (str(name), f"{name}-{problem}"):
        if stem in shipped:
            return shipped[stem]
    known = ", ".join(model_names() if problem else sorted(shipped))
    raise ElgoError(f"model is {str(name)!r}; there are {known}, or name a FILE.safetensors")


def load_weights(name: str | Path, problem: ProblemName | None = None) -> Weights:
    """Return the model of a name in the package ("elg-tsp", or "elg" and the problem) or of FILE.safetensors.

    It runs on a CPU and needs no torch. Each version of a file is read once: do not change its arrays.
    Raises ElgoError if it is not the paper's network, or for another problem.
    """
    file = model_file(name, problem)
    return _load_weights(file, _version(file), problem)


def load_model(
    name: str | Path,
    problem: ProblemName | None = None,
    global_policy: MakeGlobalPolicy | None = None,
    device: str = "cpu",
) -> Policy:
    """Return the network in torch of a name in the package ("elg-tsp", or "elg" and the problem) or FILE.safetensors.

    It needs the extra `elgo[train]`. Each version of a file is read once: copy the policy with copy.deepcopy before you
    change its parameters. `global_policy` makes the one that the file was trained with, if it is not the paper's.
    `device` is cpu, cuda, cuda:NUMBER or auto, a GPU if there is one. Raises ElgoError if the policy is for another
    problem.
    """
    require_torch("load_model")
    file = model_file(name, problem)
    if global_policy is not None:
        return load_policy(file, problem, global_policy).to(find_device(device))
    return _load(file, _version(file), problem, device)


def as_policy(model: str | Path | Model, problem: ProblemName, device: str = "cpu") -> Model:
    """Return the model of a name or file, or what is a model already, where it is.

    By name it comes without torch, unless it is to run on a GPU or the compiled path does not know its network.
    Raises ElgoError if it is for another problem.
    """
    if isinstance(model, str | Path):
        weights = load_weights(model, problem)
        if weights.config.compiled and not is_gpu(device):
            return weights
        return load_model(model, problem, device=device)
    check_problem(model, problem)
    return model


def check_problem(model: Model, problem: ProblemName) -> None:
    """Raise ElgoError if the model is for another problem."""
    if model.config.problem != problem:
        raise ElgoError(f"the policy's problem is {model.config.problem!r}, but the instance needs {problem!r}")


def _version(file: Path) -> int:
    return file.stat().st_mtime_ns if file.is_file() else 0


@lru_cache(maxsize=4)
def _load_weights(file: Path, modified: int, problem: ProblemName | None) -> Weights:
    weights = read_weights(file, problem)
    check_tensors(file, tensor_shapes(weights.config), weights.tensors)
    return weights


@lru_cache(maxsize=4)
def _load(file: Path, modified: int, problem: ProblemName | None, device: str) -> Policy:
    return load_policy(file, problem).to(find_device(device))


def save_policy(path: Path, policy: Policy, training: str, dtype: type[np.floating] = np.float16) -> None:
    """Write the parameters, the config and a sentence on how they were trained, atomically."""
    tensors = {name: value.detach().cpu().float().numpy().astype(dtype) for name, value in policy.state_dict().items()}
    metadata = {"config": json.dumps(asdict(policy.config)), "training": training}
    atomic_write(path, save(tensors, metadata))


def load_policy(
    path: Path, problem: ProblemName | None = None, global_policy: MakeGlobalPolicy | None = None
) -> Policy:
    """Return the policy in a weights file, in float32; ElgoError if it is not one, or one for another problem."""
    import torch

    from elgo.model.ensemble import Policy

    weights = read_weights(path, problem)
    # Before anything is built: what a config asks for may be more than any memory.
    if global_policy is None:
        check_tensors(path, tensor_shapes(weights.config), weights.tensors)
    else:
        local = {name: value for name, value in weights.tensors.items() if name.startswith("local.")}
        check_tensors(path, local_shapes(weights.config), local)
    with torch.random.fork_rng(devices=[]):  # parameters are drawn before they are replaced
        policy = Policy(weights.config, global_policy) if global_policy else Policy(weights.config)
    expected = {name: tuple(value.shape) for name, value in policy.state_dict().items()}
    check_tensors(path, expected, weights.tensors)
    policy.load_state_dict({name: torch.from_numpy(value) for name, value in weights.tensors.items()})
    return policy.eval()


@contextmanager
def open_weights(path: Path) -> Iterator[Any]:
    """Yield the open file of safetensors; ElgoError if it is not one."""
    if path.exists() and not path.is_file():  # opening a FIFO may never end
        raise ElgoError(f"{path}: is not a regular file")
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except FileNotFoundError:
        raise ElgoError(f"{path}: no such weights file") from None
    except (SafetensorError, OSError) as error:
        raise ElgoError(f"{path}: not a safetensors file ({printable(str(error))})") from None


def read_weights(path: Path, problem: ProblemName | None = None) -> Weights:
    """Return the content of a weights file; ElgoError if it is not one, or one for another problem."""
    with open_weights(path) as file:
        metadata = file.metadata() or {}
        tensors = {name: _read_tensor(path, file, name) for name in file.keys()}  # noqa: SIM118
    if "config" not in metadata:
        raise ElgoError(f"{path}: config is missing from the file's metadata")
    try:
        config = make_section(PolicyConfig, parse_json(metadata["config"]), "config")
    except (ValueError, OverflowError) as error:
        raise ElgoError(f"{path}: {error!s:.300}") from None
    if problem is not None and config.problem != problem:
        raise ElgoError(f"{path}: problem is {config.problem!r}, but the instance needs {problem!r}")
    return Weights(config, tensors, metadata.get("training", ""))


def _read_tensor(path: Path, file: Any, name: str) -> NDArray[np.float32]:
    """Return a tensor of an open weights file; ElgoError if it has no floating-point numbers that numpy knows."""
    kind = file.get_slice(name).get_dtype()
    if kind not in DTYPES:
        raise ElgoError(f"{path}: tensor {name!r} is {kind}, must be {' or '.join(DTYPES)}")
    with np.errstate(over="ignore"):  # infinity is refused later
        values: NDArray[np.float32] = file.get_tensor(name).astype(np.float32)
    return values


def check_tensors(path: Path, expected: Mapping[str, tuple[int, ...]], tensors: Mapping[str, NDArray]) -> None:
    """Raise ElgoError that names the first tensor that is missing, unknown, misshapen or not finite."""
    for name in sorted(set(expected) ^ set(tensors)):
        raise ElgoError(f"{path}: tensor {name!r} is {'missing' if name in expected else 'unknown'}")
    for name, value in tensors.items():
        if value.shape != expected[name]:
            raise ElgoError(f"{path}: tensor {name!r} is {tuple(value.shape)}, must be {expected[name]}")
        if not np.isfinite(value).all():
            raise ElgoError(f"{path}: tensor {name!r} has a number that is not finite")
