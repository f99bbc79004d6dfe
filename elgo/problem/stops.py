"""What a file says about the nodes of an instance beyond the problem itself: ids, names, places, other columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elgo.problem.distances import FloatArray, to_degrees
from elgo.problem.instance import Instance


@dataclass(frozen=True)
class Stops:
    """The nodes of an instance as people know them, in the order of its nodes.

    - `ids`: as the file writes them; the node numbers if it has none
    - `names`: empty text where there is none
    - `degrees`: (n, 2) latitude and longitude, None if the file has none
    - `columns`: all columns of a CSV file, by their header: cells as text
    - `delimiter`, `decimal`: how the CSV file separates cells and writes fractions, for CSV files made from it
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    degrees: FloatArray | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    delimiter: str = ","
    decimal: str = "."

    @classmethod
    def of(cls, instance: Instance) -> Stops:
        """Return what an instance alone tells: node numbers as ids, and places if its metric is one on a sphere."""
        degrees = to_degrees(instance.metric, instance.coords)
        return cls(tuple(map(str, instance.labels)), ("",) * instance.size, degrees)

    def title(self, node: int) -> str:
        """Return the name of a node, or its id if it has none."""
        return self.names[node] or self.ids[node]
