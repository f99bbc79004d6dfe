"""The command as a whole: help, version, wrong options."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import ROOT, TSP, elgo_command, run

import elgo


def test_help_imports_nothing_heavy() -> None:
    done = elgo_command("--help")
    assert done.returncode == 0
    assert "solve" in done.stdout
    trace = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "elgo", "--help"], capture_output=True, text=True, cwd=ROOT
    ).stderr
    imported = {line.rsplit("|", 1)[-1].strip() for line in trace.splitlines()}
    assert "typer" in imported
    assert not imported & {"torch", "numba", "rich", "matplotlib", "scipy"}


def test_a_search_loads_only_what_it_needs() -> None:
    """Of scipy, numba looks at the version."""
    command = [sys.executable, "-X", "importtime", "-m", "elgo", "solve", str(TSP), "--time-limit", "0.1"]
    trace = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stderr
    imported = {line.rsplit("|", 1)[-1].strip() for line in trace.splitlines() if line.startswith("import time:")}
    assert "numba" in imported
    assert not imported & {"torch", "matplotlib", "rich", "scipy.linalg", "scipy.spatial", "scipy.sparse"}


@pytest.mark.parametrize(
    "args",
    [
        ["--nonsense"],
        ["solve", TSP, "--symmetries", 9],
        ["solve", TSP, "--starts", 0],
        ["solve", TSP, "--jobs", 0],
        ["solve", TSP, "--threads", 10**9],
        ["solve", TSP, "--time-limit", "soon"],
        ["solve", TSP, "--time-limit", 5, "--policy-only"],
        ["solve", TSP, "--weights", "w.safetensors"],
        ["solve"],
        ["nonsense"],
    ],
)
def test_wrong_options_are_one_line(args: list[object]) -> None:
    done = elgo_command(*args)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("elgo: ")


def test_nothing_asks_for_help() -> None:
    done = elgo_command()
    assert done.returncode == 0
    assert "solve" in done.stdout


def test_version() -> None:
    assert elgo_command("--version").stdout == f"elgo {elgo.__version__}\n"


COMMANDS = ["solve", "warm-up", "models", "info", "import-weights", "export-weights", "train", "cool", "plot-training"]
COMMANDS += ["bench run", "bench report", "bench compare", "bench ablations", "data fetch"]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(command: str) -> None:
    done = run(*command.split(), "-h")
    assert done.exit_code == 0
    assert f"  elgo {command.removesuffix(' run')}" in done.stdout.partition("Example")[2]
    assert done.stdout == run(*command.split(), "--help").stdout


def test_completion_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_ELGO_COMPLETE": "complete_bash", "COMP_WORDS": "elgo so", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    done = elgo_command()
    assert (done.returncode, done.stdout, done.stderr) == (0, "solve\n", "")


# --- streams, signals and exit codes


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which ELGO stands for the command."""
    line = line.replace("ELGO", f"{sys.executable} -m elgo")
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = shell(f"ELGO solve {TSP} --time-limit 0.3 --json {out} {closed}")
    assert done.returncode == 0
    assert out.read_text().startswith("[")
    assert ("clusters-n120" in done.stdout) == (">&-" not in closed.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["models", f"solve {TSP} --time-limit 0.3 2>&1", "--help"])
def test_a_reader_that_has_seen_enough(command: str) -> None:
    done = shell(f"ELGO {command} | head -c 1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 1, "")


def test_a_full_disk() -> None:
    done = shell("ELGO --version > /dev/full")
    assert (done.returncode, done.stderr) == (2, "elgo: No space left on device\n")
    done = shell(f"ELGO solve {TSP} --time-limit 0.3 2> /dev/full")  # where only messages go
    assert done.returncode == 0
    assert "clusters-n120" in done.stdout


def test_the_end_of_a_file_is_not_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise EOFError

    monkeypatch.setattr("elgo.cli.solve.expand_folders", fail)
    done = run("solve", TSP)
    assert done.exit_code == 1
    assert isinstance(done.exception, RuntimeError)


def test_ctrl_c_while_the_command_is_loading() -> None:
    """The handler is there before anything heavy is imported."""
    code = "import sys; sys.argv = ['elgo']; import elgo.startup"
    trace = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, cwd=ROOT
    ).stderr.splitlines()
    order = [line.rsplit("|", 1)[-1].strip() for line in trace]
    assert order.index("elgo.startup") < order.index("numpy")
    code = "import sys; sys.argv = ['elgo']; import elgo, os, signal; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (130, "elgo: interrupted\n")


def test_importing_the_library_leaves_ctrl_c_alone() -> None:
    code = "import elgo, signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT).stdout == "True\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("jobs", [1, 2])
def test_signals_keep_the_best_so_far(number: signal.Signals, code: int, jobs: int) -> None:
    words = ["solve", "examples", "--time-limit", "60", "--jobs", str(jobs)]
    process = subprocess.Popen(
        [sys.executable, "-m", "elgo", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:  # of progress, after a few seconds
        if "left" in line:
            break
    os.killpg(process.pid, number)  # as a terminal and `timeout` do
    table, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert errors.splitlines()[-1] == "elgo: interrupted"
    assert table.count(" search") == jobs


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_in_policy_only(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "elgo", "solve", str(TSP), "--policy-only", "--threads", "1"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "rollouts" in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert errors.splitlines()[-1] == "elgo: interrupted"
