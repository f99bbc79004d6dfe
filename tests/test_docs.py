"""The documentation: every command in it runs, what it names exists, and it keeps to the field's own words."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from published import Params, random_checkpoint

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
REMOVED = ROOT / "docs" / "lp-guided-policy.md"  # about code that is gone, in its own words

NOT_RUN = {  # beginning of a command -> why
    "make ": "runs these tests, among others; its targets are checked instead",
    ".venv/bin/pre-commit install": "would change the repository that the tests are in",
    "elgo data fetch": "needs a network; tests/bench covers it",
    "elgo serve": "runs until it is stopped; tests/serve covers it",
}
SMALLER = {  # beginning of a command -> options that make it short; of options given twice the last one counts
    "elgo solve": "--time-limit 0.5",
    "elgo bench tsplib": "--instances eil51 --methods elg:single",
    "elgo bench cvrplib-x": "--instances X-n101-k25 --methods elgo@0.5 --baselines pyvrp --time-limits 0.5",
    "elgo bench uniform": "--limit 1",
    "elgo bench paper": "--table 6",  # the one that measures nothing
    "elgo data reference": "--count 1 --data made",
    "elgo bench ablations": "--steps 1 --variants ablation-k-20 --instances eil51 --protocol 1x1 "
    "--set data.batch=2 --set data.sizes=10",
    "elgo train": "--steps 1 --set data.batch=2 --set data.sizes=10 --set validation.sets=[]",
    "elgo cool": "--steps 1",
    "elgo labels make": "--sizes 10 --count 2",
}
LEFT_OUT = {"elgo (train|cool)": r"--minutes \S+", "elgo solve (?=.*--policy-only)": r"--time-limit \S+"}
NEEDS_DATA = ("elgo bench tsplib", "elgo bench cvrplib-x", "elgo bench ablations")


class Block(NamedTuple):
    """A code block of a page."""

    page: Path
    language: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}-{self.language}-{self.number}"


def blocks() -> Iterator[Block]:
    """Yield the blocks of shell commands and of Python in all pages."""
    for page in PAGES:
        found = re.findall(r"^```(sh|python)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
        yield from (Block(page, language, number, text) for number, (language, text) in enumerate(found))


BLOCKS = [pytest.param(b, id=str(b), marks=[] if b.page.name == "README.md" else [pytest.mark.slow]) for b in blocks()]


def commands(block: Block) -> list[str]:
    """Return the commands of a block as they are run: shortened, and without those of NOT_RUN."""
    lines = [line.split("  #")[0].strip() for line in block.text.splitlines()]
    return [_smaller(line) for line in lines if line and not line.startswith(("#", *NOT_RUN))]


def _smaller(command: str) -> str:
    for begin, options in SMALLER.items():
        if command.startswith(begin):
            command = f"{command} {options}"
    for begin, options in LEFT_OUT.items():
        if re.match(begin, command):
            command = re.sub(options, "", command)
    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the commands name: examples, a CVRP with a solution, a CSV file, arrays."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    points = [(37 * i % 101, 53 * i % 97) for i in range(41)]
    nodes = "\n".join(f"{i} {x} {y}" for i, (x, y) in enumerate(points, 1))
    demands = "\n".join(f"{i} {int(i > 1)}" for i in range(1, 42))
    (tmp_path / "big.vrp").write_text(
        "NAME : big\nTYPE : CVRP\nDIMENSION : 41\nEDGE_WEIGHT_TYPE : EUC_2D\nCAPACITY : 5\n"
        f"NODE_COORD_SECTION\n{nodes}\nDEMAND_SECTION\n{demands}\nDEPOT_SECTION\n1\n-1\nEOF\n"
    )
    routes = (" ".join(str(5 * r + i) for i in range(1, 6)) for r in range(8))
    (tmp_path / "mine.sol").write_text("".join(f"Route #{i}: {route}\n" for i, route in enumerate(routes, 1)))
    np.savez(tmp_path / "mine.npz", coords=[points, points[::-1]])
    params = Params("tsp")
    torch.save({"model_state_dict": random_checkpoint(params)}, tmp_path / "ELG.pt")
    (tmp_path / "config.yml").write_text(params.config_yml())
    (tmp_path / "stops.csv").write_text("x,y,demand\n0,0,0\n" + "".join(f"{x},{y},9\n" for x, y in points))
    return tmp_path


@pytest.mark.parametrize("block", BLOCKS)
def test_commands_run(block: Block, folder: Path, request: pytest.FixtureRequest) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for command in [block.text] if block.language == "python" else commands(block):
        if command.startswith(NEEDS_DATA):
            environment["ELGO_DATA"] = str(request.getfixturevalue("data"))
            command = command.replace(" DATA", " $ELGO_DATA")
        words = ["-c", command] if block.language == "python" else _words(command, environment)
        ended = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((ROOT / "docs").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    """The code of all cells as one script, briefly; the stored outputs are those of cells run in order."""
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    script = "\n\n".join("".join(cell["source"]) for cell in cells)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "STEPS": "2", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _words(command: str, environment: dict[str, str]) -> list[str]:
    """Return the arguments of the interpreter that runs this checkout's `elgo`."""
    first, *words = (word.replace("$ELGO_DATA", environment.get("ELGO_DATA", "")) for word in shlex.split(command))
    assert first in ("elgo", "python")
    return ["-m", "elgo", *words] if first == "elgo" else words


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {match for page in PAGES for match in re.findall(r"\bmake ([a-z][a-z-]*)(?=[`\s])", _code(page))}
    assert {"demo", "test"} <= named <= targets


def test_names_in_the_makefile_exist() -> None:
    imports = re.findall(r"from (elgo[\w.]*) import (\w+)", (ROOT / "Makefile").read_text())
    assert imports
    for module, name in imports:
        source = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
        assert f"\ndef {name}(" in source


def _code(page: Path) -> str:
    """Return what a page marks as code, a line for each piece."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return "\n".join(fenced + [f"{piece}\n" for piece in inline])


@pytest.mark.parametrize("page", [page for page in PAGES if page != REMOVED], ids=lambda page: page.name)
def test_files_and_names_exist(page: Path) -> None:
    """Paths such as elgo/model/env.py and docs/search.md, and names such as Policy.logits."""
    code = _code(page)
    paths = re.findall(r"(?<![\w/.~$-])((?:elgo|tests|benchmarks|tools|docs|examples)/[\w./-]*\w/?)", code)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    dotted = re.findall(r"^([A-Z][a-z]\w*\.\w+)$", code, re.M)
    assert sorted(set(dotted) - _methods()) == []


def _methods() -> set[str]:
    """Return all names Class.method of the package."""
    found = set()
    for file in (ROOT / "elgo").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_no_private_words() -> None:
    """Words that only this project used, for things that are gone or have a usual name."""
    words = re.compile(r"\b(kin|strands|dives|paced|ground)\b", re.I)
    files = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "elgo").rglob("*.py"), *(ROOT / "elgo").rglob("*.md")]
    files += (ROOT / "elgo").rglob("*.toml")
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        if file != REMOVED
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


def test_the_reference_has_all_public_names() -> None:
    import elgo

    shown = re.findall(r"heading: elgo\.(\w+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(set(elgo.__all__) - {"__version__"})


def test_version_is_the_same_everywhere() -> None:
    import elgo

    assert f"version: {elgo.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {elgo.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
