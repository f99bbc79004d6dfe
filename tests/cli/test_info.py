"""`elgo info`: what weights files say about themselves."""

import os

import numpy as np
import pytest
from commands import TSP, check_refused, run
from safetensors.numpy import save_file


def test_info_prints_the_header_of_a_weights_file(tmp_path) -> None:
    file = tmp_path / "w.safetensors"
    save_file({"a": np.zeros(3)}, file, metadata={"config": '{"width": 128}', "training": "ten minutes"})
    done = run("info", file)
    assert done.exit_code == 0
    assert '  config: {"width": 128}' in done.stdout
    assert "  training: ten minutes" in done.stdout


def test_info_refuses_other_files(tmp_path) -> None:
    check_refused(run("info", TSP), str(TSP), "safetensors")
    check_refused(run("info", tmp_path / "none.safetensors"), "none.safetensors")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_info_does_not_wait_for_a_fifo(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    check_refused(run("info", tmp_path / "pipe.safetensors"), "pipe.safetensors: is not a regular file")
