"""A hook of mkdocs: show each notebook of docs/ as a page, with its stored outputs; nothing is run."""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    """Add NAME.md for each NAME.ipynb, which itself stays a file to download."""
    for notebook in sorted(Path(config["docs_dir"]).glob("*.ipynb")):
        files.append(File.generated(config, f"{notebook.stem}.md", content=page(notebook)))
    return files


def page(notebook: Path) -> str:
    """Return a notebook as Markdown."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    download = f"[Download the notebook]({notebook.name})"
    return "\n\n".join([*(part for cell in cells for part in _parts(cell)), download]) + "\n"


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    """Yield a cell's text or code, then its outputs: printed text and pictures."""
    source = "".join(cell["source"])
    yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
    for output in cell.get("outputs", ()):
        if "text" in output:
            yield f"```text\n{''.join(output['text']).rstrip()}\n```"
        elif picture := output.get("data", {}).get("image/png"):
            alternative = html.escape(source.splitlines()[-1])
            yield f'<img alt="output of {alternative}" src="data:image/png;base64,{"".join(picture).strip()}">'
