"""Reference costs of generated sets: near-optimal costs, one for each instance, that gaps refer to.

NAME.npz has the costs of the first instances of a set (float32), a checksum of each instance (CRC-32), the distance
type of the costs and the solver. Those of the package are in bench/references, one's own in references/ of the data
folder.
"""

import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elgo.problem.distances import Metric
from elgo.problem.errors import ElgoError
from elgo.problem.files import atomic_write
from elgo.problem.files.arrays import read_arrays
from elgo.problem.instance import Instance
from elgo.problem.task import Task

SHIPPED = Path(__file__).parent / "references"
SAVED = 20  # instances after which what is made is saved
TSP_SECONDS, CVRP_SECONDS = 0.05, 1.0  # of CPU time for an instance with N = 100, growing in proportion to N
FIELDS = ("cost", "checksum", "metric", "solver")


@dataclass(frozen=True, eq=False)
class References:
    """Costs of the first instances of a set, with the checksums of these instances."""

    cost: NDArray[np.float32]
    checksum: NDArray[np.uint32]
    metric: str
    solver: str  # and its time

    def fits(self, instances: Sequence[Instance]) -> bool:
        """Whether these are the costs of the first of these instances, or of all of them and more."""
        found = [checksum(instance) for instance in instances[: len(self.cost)]]
        return bool(np.array_equal(found, self.checksum[: len(found)]))


def checksum(instance: Instance) -> int:
    """Return the CRC-32 of what decides an instance's costs, but for the distance type."""
    arrays = (instance.coords, instance.demand, instance.capacity)
    content = b"".join(np.asarray(array, "<f8").tobytes() for array in arrays if array is not None)
    return zlib.crc32(content)


def read_references(file: Path) -> References:
    """Return the content of a file of reference costs; ValueError if it is something else."""
    try:
        arrays = read_arrays(file)
        cost, checksums, metric, solver = (arrays[name] for name in FIELDS)
    except KeyError as error:
        raise ElgoError(f"{file}: not a file of reference costs ({error} is missing)") from None
    if cost.ndim != 1 or cost.shape != checksums.shape or not (cost > 0).all():
        raise ElgoError(f"{file}: cost has shape {cost.shape}, must be positive numbers, one for each checksum")
    return References(cost, checksums, str(metric), str(solver))


def find_references(name: str, instances: Sequence[Instance], data: Path) -> References | None:
    """Return the reference costs of a set: one's own, else the package's; None if there are none of these instances.

    Raises ValueError if they belong to the instances, but their costs are rounded in another way.
    """
    for file in (data / "references" / f"{name}.npz", SHIPPED / f"{name}.npz"):
        if file.is_file() and (found := read_references(file)).fits(instances):
            metric = instances[0].metric.value
            if found.metric != metric:
                raise ElgoError(f"{file}: costs are {found.metric}, but those of {name} are {metric}: other rounding")
            return found
    return None


def with_references(name: str, instances: Sequence[Instance], data: Path) -> list[Instance]:
    """Return the instances of a set with their reference costs as best-known costs, where they have none."""
    if not instances or instances[0].best_known is not None:
        return list(instances)
    found = find_references(name, instances, data)
    costs = [] if found is None else found.cost[: len(instances)].tolist()
    known = [replace(instance, best_known=cost) for instance, cost in zip(instances, costs, strict=False)]
    return [*known, *instances[len(known) :]]


def make_references(
    name: str,
    instances: Sequence[Instance],
    data: Path,
    seconds: float | None = None,
    on_progress: Callable[[int, int, float], None] | None = None,
) -> Path:
    """Solve instances that have no reference costs yet, saving every few; return the file.

    TSPs by fast_tsp, CVRPs by HGS; `seconds` is the CPU time for each. on_progress gets the number of costs that are
    there, the number of instances and the mean cost.
    """
    file = data / "references" / f"{name}.npz"
    first = instances[0]
    if seconds is None:
        seconds = (TSP_SECONDS if first.problem == "tsp" else CVRP_SECONDS) * first.customers / 100
    solver = f"{'fast_tsp' if first.problem == 'tsp' else 'HGS'}, {seconds:g} s of CPU time"
    costs: list[float] = []
    if file.is_file():
        stored = read_references(file)
        if not stored.fits(instances):
            raise ElgoError(f"{file}: holds costs of other instances than {name}; move it away")
        if stored.solver != solver:
            raise ElgoError(f"{file}: was made by {stored.solver}, now it would be {solver}; move it away")
        costs = stored.cost.tolist()
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
    for index in range(len(costs), len(instances)):
        costs.append(_solve(instances[index], seconds, index))
        if len(costs) % SAVED == 0 or len(costs) == len(instances):
            _write(file, costs, instances, solver)
            if on_progress is not None:
                on_progress(len(costs), len(instances), float(np.mean(costs)))
    return file


def _solve(instance: Instance, seconds: float, seed: int) -> float:
    from elgo.train.labelling import label_cvrp, label_tsp  # loads compiled kernels, which reading does not need

    if instance.metric is not Metric.EXACT:
        raise ElgoError(f"{instance.name}: metric is {instance.metric.value}; references are made of unrounded sets")
    if instance.problem == "tsp":
        return label_tsp(Task(instance.coords), seconds).cost
    demand, capacity = instance.units()
    return label_cvrp(Task(instance.coords, demand, capacity), seconds, seed).cost


def _write(file: Path, costs: Sequence[float], instances: Sequence[Instance], solver: str) -> None:
    checksums = [checksum(instance) for instance in instances[: len(costs)]]
    buffer = io.BytesIO()
    arrays = (np.array(costs, np.float32), np.array(checksums, np.uint32), Metric.EXACT.value, solver)
    np.savez(buffer, **dict(zip(FIELDS, arrays, strict=True)))  # type: ignore[arg-type]
    atomic_write(file, buffer.getvalue())
