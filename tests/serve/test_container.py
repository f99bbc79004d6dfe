"""The files of the container, read as Docker and systemd would: there is no engine in the tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from typer.main import get_command

from elgo.cli.main import app

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their arguments."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M))
    found = [line.partition(" ") for line in text.splitlines() if line]
    return [(name, arguments) for name, _, arguments in found]


def options_of(command: list[str]) -> None:
    """Check that `elgo serve` has the options of a command line."""
    assert command[:2] == ["elgo", "serve"]
    known = {option for parameter in get_command(app).commands["serve"].params for option in parameter.opts}  # type: ignore[attr-defined]
    assert {word for word in command if word.startswith("--")} <= known


def test_the_dockerfile() -> None:
    parts = instructions()
    assert {name for name, _ in parts} == INSTRUCTIONS
    names = [name for name, _ in parts]
    assert all(":" in arguments for name, arguments in parts if name == "FROM")  # versions are pinned
    assert parts[names.index("USER")][1] == "10001"
    last = len(names) - names[::-1].index("FROM")
    assert names[last:].index("USER") < names[last:].index("CMD")
    options_of(json.loads(dict(parts)["CMD"]))
    json.loads(dict(parts)["HEALTHCHECK"].partition("CMD ")[2])
    kept = set((ROOT / ".dockerignore").read_text().split())
    for name, arguments in parts:
        if name == "COPY" and not arguments.startswith("--from"):
            for source in arguments.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in kept


def test_the_compose_file() -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["elgo"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert service["volumes"] == ["jobs:/data"]
    assert service["read_only"] is True


def test_the_unit_in_the_docs() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    unit = re.search(r"```ini\n(.*?)```", page, re.S)
    assert unit is not None
    sections = re.findall(r"^\[(\w+)\]$", unit[1], re.M)
    assert sections == ["Unit", "Service", "Install"]
    start = re.search(r"^ExecStart=\S+/(elgo .*)$", unit[1], re.M)
    assert start is not None
    options_of(start[1].split())


def test_the_docs_name_every_option() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    options = {option for parameter in get_command(app).commands["serve"].params for option in parameter.opts}  # type: ignore[attr-defined]
    assert sorted(option for option in options - {"--help", "--port"} if option not in page) == []
