"""How many cores there are."""

import os


def available_cores() -> int:
    """Return the number of cores that this process may use; where the system does not say, that of all cores."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone
    return len(affinity(0)) if affinity else os.cpu_count() or 1
