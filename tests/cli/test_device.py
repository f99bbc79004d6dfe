"""`--device`: where models run."""

import pytest
from commands import TSP, elgo_command

from elgo.solve.config import SolveConfig

COMMANDS = {
    "solve": ("solve", TSP, "--policy-only"),
    "bench": ("bench", TSP.parent),
    "train": ("train", "paper-tsp"),
    "cool": ("cool", "runs/none", "--steps", "1"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "reason"), [("gpu", "must be auto, cpu, cuda or cuda:NUMBER"), ("cuda:99", "but torch finds ")]
)
def test_a_wrong_device_is_refused_in_one_line(command: str, name: str, reason: str) -> None:
    done = elgo_command(*COMMANDS[command], "--device", name)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"elgo: Invalid value for '--device': device is '{name}', {reason}")


def test_a_device_needs_a_model() -> None:
    done = elgo_command("solve", TSP, "--device", "cpu")
    expected = "elgo: --device is cpu, but it needs a policy: --start or --policy-only\n"
    assert (done.returncode, done.stderr) == (2, expected)


def test_a_model_runs_on_the_given_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from commands import run

    asked: list[str] = []

    def load(model: object, problem: str, device: str) -> object:
        asked.append(device)
        return loaded(model, problem)

    from elgo.solve import policy

    loaded = policy.as_policy
    monkeypatch.setattr(policy, "as_policy", load)
    done = run("solve", TSP, "--policy-only", "--starts", "1", "--symmetries", "1", "--device", "cpu", "--quiet")
    assert (done.exit_code, asked) == (0, ["cpu"])
    assert SolveConfig().device == "auto"
