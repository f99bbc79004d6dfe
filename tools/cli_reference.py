"""A hook of mkdocs: generate the page cli.md from the commands of `elgo`, so that it is always that of the code."""

from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from elgo.cli.main import app


def on_files(files: Files, config: Any) -> Files:
    """Add cli.md to the pages of the site."""
    files.append(File.generated(config, "cli.md", content=reference()))
    return files


def reference() -> str:
    """Return the page: every command with its arguments and options, in the words of its --help."""
    intro = "# Command line\n\nGenerated from the code; `elgo COMMAND --help` prints the same.\n"
    return intro + "\n".join(_command(typer.main.get_command(app), "elgo"))


def _command(command: Any, name: str) -> Iterator[str]:
    """Yield the section of a command and those of its subcommands."""
    context = typer.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"\n## {name}\n\n{command.help or ''}\n\n```text\n{usage}\n```\n"
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{_cell(option)}` | {_cell(meaning)} |" for option, meaning in rows)
        yield ""
    for key, child in getattr(command, "commands", {}).items():
        yield from _command(child, f"{name} {key}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
