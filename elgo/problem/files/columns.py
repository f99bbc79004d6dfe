"""The columns of a CSV file of stops: which of them is the latitude, the demand, the name and so on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from elgo.problem.errors import ElgoError
from elgo.problem.files.text import quoted
from elgo.problem.files.unsupported import unsupported_column

# What a column is for -> its usual names; of several in a file, the one that comes first here is taken.
ROLES: dict[str, tuple[str, ...]] = {
    "x": ("x", "x_coord", "xcoord", "coord_x", "x_coordinate", "easting"),
    "y": ("y", "y_coord", "ycoord", "coord_y", "y_coordinate", "northing"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
    "demand": ("demand", "demands", "weight", "load", "quantity", "qty", "amount"),
    "capacity": ("capacity", "vehicle_capacity"),
    "id": ("id", "node", "label", "node_id", "stop_id", "customer_id", "location_id", "order_id", "stop", "nr", "no"),
    "name": ("name", "stop_name", "customer_name", "customer", "location", "place", "title", "site"),
    "address": ("address", "addr", "full_address", "street"),
    "depot": ("depot", "is_depot", "type", "kind", "role"),
}
_ROLE_OF = {name: role for role, names in ROLES.items() for name in names}
_MEASURED = re.compile(r"(_(kg|g|t|to|tons?|tonnes?|lbs?|l|litres?|liters?|m3|cbm|pcs|units?|boxes|pallets))$")
_YES = {"1", "true", "yes", "y", "x", "depot"}
_NOTHING = {"", "0", "0.0", "0,0", "-"}


def normalised(header: str) -> str:
    """Return a column's name in small letters, words joined by _: `Demand (kg)` -> demand_kg."""
    return re.sub(r"[\W_]+", "_", header.lower()).strip("_")


def _plain(header: str) -> str:
    """Return the normalised name without a unit of measurement, if what is left has one: demand_kg -> demand."""
    name = normalised(header)
    bare = _MEASURED.sub("", name)
    return bare if _ROLE_OF.get(bare) in ("demand", "capacity") else name


def is_known(header: str) -> bool:
    """True if a column of this name is used."""
    return _plain(header) in _ROLE_OF


def find_roles(header: Sequence[str]) -> dict[str, int]:
    """Return the index of the column of each role that the file has."""
    names = [_plain(cell) for cell in header]
    found = {}
    for role, usual in ROLES.items():
        for name in usual:
            if names.count(name) > 1:
                raise ElgoError(f"the header has the column {name} twice")
            if name in names:
                found[role] = names.index(name)
                break
    return found


def refuse_unsupported(header: Sequence[str], columns: Sequence[Sequence[str]], used: set[int]) -> None:
    """Raise ElgoError if a column that is not used stands for a constraint, unless it is empty or 0 throughout."""
    for i, (name, cells) in enumerate(zip(header, columns, strict=True)):
        constraint = None if i in used else unsupported_column(normalised(name))
        if constraint and any(cell not in _NOTHING for cell in cells):
            remedy = "remove the column to solve without them"
            raise ElgoError(f"the column {quoted(name)} is about {constraint}, which are not supported; {remedy}")


def marked_depots(cells: Sequence[str], yes_or_no: bool) -> list[int]:
    """Return the rows that a column marks as the depot: by the word, or in a column `depot` also by 1, x, yes."""
    words = _YES if yes_or_no else {"depot"}
    return [i for i, cell in enumerate(cells) if cell.lower() in words]
