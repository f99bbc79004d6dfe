"""What a file says about the nodes of an instance beyond the problem itself: ids, names, places, other columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from elgo.problem.distances import FloatArray, to_degrees
from elgo.problem.errors import ElgoError
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

    def find(self, text: str, instance: Instance) -> int:
        """Return the node with this id, name or number in the file; ElgoError if there is none, or two of a kind."""
        for what, texts in (("id", self.ids), ("name", self.names), ("number", tuple(map(str, instance.labels)))):
            found = [node for node, own in enumerate(texts) if own == text]
            if len(found) > 1:
                raise ElgoError(f"{len(found)} stops have this {what}")
            if found:
                return found[0]
        raise ElgoError("no stop has this id, name or number")

    def title(self, node: int) -> str:
        """Return the name of a node, or its id if it has none."""
        return self.names[node] or self.ids[node]


def with_named_ends(instance: Instance, stops: Stops, opened: bool, first: str | None, last: str | None) -> Instance:
    """Return the instance with open routes, or with the first or last stop that is named; see Stops.find."""
    nodes: dict[str, int | None] = {"first": None, "last": None}
    for name, text in (("first", first), ("last", last)):
        if text is None:
            continue
        if instance.problem == "cvrp":
            raise ElgoError(f"{name} is {text}, but only a TSP takes it: CVRP routes begin at the depot")
        try:
            nodes[name] = stops.find(text, instance)
        except ElgoError as error:
            raise ElgoError(f"{name} is {text}, but {error}") from None
    if first is not None and nodes["first"] == nodes["last"] and instance.size > 1:
        raise ElgoError(f"first and last are both {first}; for a tour that returns there, give first alone")
    return instance.with_ends(open=opened, **nodes)
