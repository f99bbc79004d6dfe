"""The first solves after `pip install`: from the wheel, in an empty environment, with an empty cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "mixed-n116-k13.vrp"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the package from its wheel; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    found = folder / "venv" / "bin" / "python"
    subprocess.run([found, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours, theirs = (
        subprocess.run([each, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
        for each in (sys.executable, found)
    )
    (Path(theirs) / "dependencies.pth").write_text(ours + "\n")
    return found


def start(python: Path, cache: Path) -> subprocess.Popen[str]:
    command = [python, "-P", "-m", "elgo", "solve", EXAMPLE, "--time-limit", "3", "--threads", "1"]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(
        command, cwd=python.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def check(process: subprocess.Popen[str]) -> str:
    """Return stderr of a run whose answer is from the search and less than 1 % above the best known cost."""
    table, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    *_, gap, _, source = table.splitlines()[-1].split()
    assert source == "search"
    assert float(gap) < 1
    return errors


def test_the_first_and_the_second_solve(python: Path, tmp_path: Path) -> None:
    assert "compiling (once, about 20 s)" in check(start(python, tmp_path))
    assert "compiling" not in check(start(python, tmp_path))


def test_two_first_solves_at_once(python: Path, tmp_path: Path) -> None:
    for process in [start(python, tmp_path) for _ in range(2)]:
        check(process)


def test_nowhere_to_keep_kernels(python: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "every process compiles anew" in check(start(python, tmp_path / "file"))
