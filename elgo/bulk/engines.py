"""The engines by their names."""

from typing import Literal

from elgo.bulk.engine import Engine
from elgo.bulk.local_engine import LocalEngine
from elgo.bulk.ray_engine import RayEngine
from elgo.problem.cores import available_cores
from elgo.problem.errors import ElgoError

EngineName = Literal["local", "ray"]


def open_engine(name: EngineName = "local", jobs: int | None = None, address: str | None = None) -> Engine:
    """Return the engine of a name.

    `jobs` is the number of workers; default: one for each core of this machine, or CPU of the Ray cluster. `address`
    is that of a running Ray cluster, or "auto" to look for one on this machine; without it Ray is started here.
    """
    if name == "ray":
        return RayEngine(jobs, address)
    if name != "local":
        raise ElgoError(f"engine is {name!r}, expected local or ray")
    if address is not None:
        raise ElgoError(f"address is {address!r}, but the local engine takes none; it is for the engine ray")
    return LocalEngine(jobs or available_cores())
