"""Constraints that are not supported, by the names that files give them: such files are refused, not half solved."""

import re

_TIME_WINDOWS, _SERVICE = "time windows", "service times"
_FLEET, _PAIRS, _PRIZES = "mixed fleets", "pickups with deliveries", "prizes"

SECTIONS = {  # keywords of TSPLIB and VRPLIB
    "TIME_WINDOW_SECTION": _TIME_WINDOWS,
    "SERVICE_TIME_SECTION": _SERVICE,
    "RELEASE_TIME_SECTION": "release times",
    "STANDTIME_SECTION": _SERVICE,
    "PICKUP_SECTION": _PAIRS,
    "PICKUP_AND_DELIVERY_SECTION": _PAIRS,
    "BACKHAUL_SECTION": "backhauls",
    "PRIZE_SECTION": _PRIZES,
    "FIXED_EDGES_SECTION": "fixed edges",
    "TIME_WINDOWS": _TIME_WINDOWS,
    "MAX_DURATION": "route duration limits",
    "MAX_DISTANCE": "route length limits",
}
_VEHICLES = re.compile(r"VEHICLES?_\w+|CAPACITY_SECTION")  # one value for each vehicle

TYPES = {  # problems
    "VRPTW": _TIME_WINDOWS,
    "CVRPTW": _TIME_WINDOWS,
    "TSPTW": _TIME_WINDOWS,
    "PDTSP": _PAIRS,
    "PDPTW": f"{_PAIRS} and {_TIME_WINDOWS}",
    "VRPPD": _PAIRS,
    "VRPB": "backhauls",
    "HVRP": _FLEET,
    "HFVRP": _FLEET,
    "HCVRP": _FLEET,
    "MDVRP": "several depots",
    "MDCVRP": "several depots",
    "DCVRP": "route duration limits",
    "PCVRP": _PRIZES,
    "PCTSP": _PRIZES,
    "OP": _PRIZES,
    "SOP": "precedences",
    "HCP": "Hamiltonian cycles",
}

_UNIT = r"(_(time|duration|h|min|mins|minutes|s|sec|seconds))"
_COLUMNS = (  # of CSV files, in small letters with _ between words
    (r"(time_?)?windows?(_\w+)?|tw(_\w+)?|(ready|due|earliest|latest|opening|closing)(_(time|date))?", _TIME_WINDOWS),
    (r"opens?|closes?|(start|end|from|to|arrival|delivery)_time|(open|close)_(at|from|until)", _TIME_WINDOWS),
    (rf"(service|duration){_UNIT}?|(stop|dwell|handling|unloading){_UNIT}", _SERVICE),
    (r"vehicle_?(type|class)|allowed_vehicles|skills?|fleet", _FLEET),
    (r"vehicle(_(id|no|name))?", "stops tied to a vehicle"),
    (r"pickups?(_\w+)?|deliver(y|ies)(_(id|node|index))?|backhauls?|linehauls?", _PAIRS),
    (r"prizes?|profits?", _PRIZES),
)


def unsupported_section(keyword: str) -> str | None:
    """Return the constraint that a keyword of a TSPLIB or VRPLIB file stands for, None if it is not known."""
    return _FLEET if _VEHICLES.fullmatch(keyword) else SECTIONS.get(keyword)


def unsupported_column(name: str) -> str | None:
    """Return the constraint that a column of a CSV file stands for, None if it is no constraint that is known."""
    return next((constraint for pattern, constraint in _COLUMNS if re.fullmatch(pattern, name)), None)
