"""Fixtures for all tests: the optional data folder and weights files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# Some virtual machines name AMX among their instructions and then refuse them: half precision would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the benchmark files; tests that need it are skipped where it is not."""
    folder = Path(os.environ.get("ELGO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "tsplib").is_dir() or not (folder / "cvrplib").is_dir():
        pytest.skip(f"no benchmark files in {folder} (set ELGO_DATA)")
    return folder


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A weights file of a small random policy for each problem."""
    from samples import random_policy, small_config

    from elgo.model.checkpoint import save_policy

    folder = tmp_path_factory.mktemp("weights")

    def written(problem: str) -> Path:
        file = folder / f"{problem}.safetensors"
        if not file.exists():
            save_policy(file, random_policy(small_config(problem), scale=1.5), "random")
        return file

    return written
