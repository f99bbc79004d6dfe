"""Fail if a module of the package is longer than 400 lines or one of its functions longer than 60.

Use: python tools/check_sizes.py [FOLDER]. Exceptions are listed here, each with its reason.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
EXCEPTIONS: dict[str, str] = {}  # "elgo/a/b.py" or "elgo/a/b.py:function" -> reason


def too_long(file: Path, name: str) -> Iterator[tuple[str, int, int]]:
    """Yield (what, lines, limit) for the module and each of its functions above the limit."""
    text = file.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MODULE_LINES:
        yield name, lines, MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{name}:{node.name}", lines, FUNCTION_LINES


def main(root: Path) -> int:
    """Print what is too long, and exceptions that nothing needs; return the exit code."""
    found = {}
    for file in sorted((root / "elgo").rglob("*.py")):
        for what, lines, limit in too_long(file, file.relative_to(root).as_posix()):
            found[what] = f"{what}: {lines} lines, at most {limit}"
    problems = [line for what, line in found.items() if what not in EXCEPTIONS]
    problems += [f"{what}: listed as an exception, but is not too long" for what in EXCEPTIONS.keys() - found.keys()]
    print("\n".join(problems) or "sizes: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
