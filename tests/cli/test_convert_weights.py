"""`elgo import-weights` and `elgo export-weights`: options and wrong input; tests/model covers the conversion."""

from collections.abc import Callable
from pathlib import Path

import torch
from commands import check_refused, run
from published import Params, random_checkpoint

from elgo.model.checkpoint import read_weights

SMALL = {"width": 16, "hidden": 24, "layers": 1, "local_width": 8}


def test_there_and_back(weights: Callable[[str], Path], tmp_path: Path) -> None:
    done = run("export-weights", weights("tsp"), tmp_path / "a.pt")
    assert (done.exit_code, done.stdout) == (0, f"wrote {tmp_path / 'a.pt'} and {tmp_path / 'a.yml'}\n")
    done = run("import-weights", tmp_path / "a.pt", "--config", tmp_path / "a.yml", "--neighbours", 6)
    assert (done.exit_code, done.stdout) == (0, f"wrote {tmp_path / 'a.safetensors'}\n")
    before, after = read_weights(weights("tsp")), read_weights(tmp_path / "a.safetensors")
    assert (after.config.neighbours, after.config.normalisation) == (6, "official")
    assert (after.config.heads, after.config.xi) == (before.config.heads, before.config.xi)
    assert all((value == after.tensors[name]).all() for name, value in before.tensors.items())


def test_options_instead_of_a_config(tmp_path: Path) -> None:
    torch.save({"model_state_dict": random_checkpoint(Params("cvrp", **SMALL))}, tmp_path / "x.pt")
    check_refused(run("import-weights", tmp_path / "x.pt", "--neighbours", 9), "does not say heads, xi, clip, penalty")
    numbers = ["--neighbours", 9, "--xi", 2, "--clip", 10, "--heads", 4, "--local-heads", 2]
    switches = ["--no-penalty", "--no-positional", "--coordinates", "euclidean"]
    assert run("import-weights", tmp_path / "x.pt", *numbers, *switches).exit_code == 0
    config = read_weights(tmp_path / "x.safetensors").config
    assert (config.neighbours, config.xi, config.clip, config.heads, config.local_heads) == (9, 2.0, 10.0, 4, 2)
    assert (config.penalty, config.positional, config.coordinates) == (False, False, "euclidean")


def test_wrong_input(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    check_refused(run("import-weights", tmp_path / "none.pt", tmp_path / "out.safetensors"), "none.pt")
    check_refused(run("import-weights", tmp_path / "x.pt", "--config", tmp_path / "none.yml"), "none.yml")
    check_refused(run("export-weights", tmp_path / "none.safetensors"), "none.safetensors")
    check_refused(run("export-weights", weights("cvrp"), tmp_path / "x.pt"), "local.depot is not local.embed.bias")


def test_no_advice_to_load_unsafely(tmp_path: Path) -> None:
    torch.save({"model_state_dict": print}, tmp_path / "hostile.pt")
    done = run("import-weights", tmp_path / "hostile.pt")
    check_refused(done, "hostile.pt: not a checkpoint that loads safely")
    assert "weights_only" not in done.stderr
    assert "trust" not in done.stderr


def test_an_input_is_never_replaced(tmp_path: Path) -> None:
    for command, name in (("import-weights", "w.safetensors"), ("export-weights", "w.pt")):
        file = tmp_path / name
        file.write_text("")
        check_refused(run(command, file), str(file), "is an input")
