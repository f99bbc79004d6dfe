"""Wrong input in one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn wrong input (ValueError, OSError) into one line and exit code 2, and Ctrl-C into exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
    except ValueError as error:
        _fail(str(error), 2)


def _fail(message: str, code: int) -> NoReturn:
    print(f"elgo: {message}", file=sys.stderr)
    raise typer.Exit(code)
