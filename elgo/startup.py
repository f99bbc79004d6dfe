"""Ctrl-C while the command is loading: one line, no traceback from inside of an import. Imported first of all."""

import os
import signal
import sys
from itertools import pairwise
from types import FrameType

INTERRUPTED = 130  # exit code


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"elgo: interrupted\n")
    os._exit(INTERRUPTED)


def _is_command() -> bool:
    """True if this process is the command: the script `elgo`, or `python -m elgo`."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return name in ("elgo", "elgo.exe") or ("-m", "elgo") in pairwise(sys.orig_argv)


def end_loading() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if it is ignored
    signal.signal(signal.SIGINT, _end)
