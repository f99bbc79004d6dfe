"""A solution as a table of stops (CSV) and as GeoJSON, with all columns of the input carried along."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from io import StringIO
from typing import Any

from elgo.problem.errors import ElgoError
from elgo.problem.files.text import format_number
from elgo.problem.instance import Instance
from elgo.problem.itinerary import Itinerary, in_display_unit, itineraries
from elgo.problem.solution import Solution
from elgo.problem.stops import Stops

_DECIMALS = 6  # of distances; of a kilometre that is a millimetre


def format_routes(solution: Solution, stops: Stops) -> str:
    """Return the routes as CSV text: a row for each stop, and one for the depot at both ends unless routes are open.

    Columns: route and position (the start is 0), id, name, demand, load and distance so far, leg, then those of the
    input. On the earth, distances are kilometres. Delimiter and decimal mark are those of the input.
    """
    text = StringIO()
    unit = _unit(solution.instance)
    header = ["route", "position", "id", "name", "demand", "load", f"leg{unit}", f"distance{unit}"]
    carried = _carried(stops, header)
    writer = csv.writer(text, delimiter=stops.delimiter, lineterminator="\n")
    writer.writerow([*header, *carried])
    for number, route in enumerate(itineraries(solution), start=1):
        for position, node in enumerate(route.nodes):
            numbers = _numbers(solution.instance, route, position)
            cells = [format_number(value).replace(".", stops.decimal) if value is not None else "" for value in numbers]
            own = [str(number), str(position), stops.ids[node], stops.names[node], *cells]
            writer.writerow([*own, *(column[node] for column in carried.values())])
    # Excel takes a file for UTF-8 only if it begins with a byte-order mark; other readers stumble over one.
    return ("\ufeff" if stops.delimiter == ";" else "") + text.getvalue()


def format_geojson(solution: Solution, stops: Stops) -> str:
    """Return the routes as GeoJSON: a line for each route and a point for each stop.

    Raises ElgoError if there are no latitudes and longitudes.
    """
    if stops.degrees is None:
        raise ElgoError("GeoJSON needs latitude and longitude, but the stops have x, y or no coordinates")
    instance = solution.instance
    unit = _unit(instance)
    places = [[round((lon + 180.0) % 360.0 - 180.0, 7), round(lat, 7)] for lat, lon in stops.degrees.tolist()]
    lines, points = [], []
    names = ("demand", "load", f"leg{unit}", f"distance{unit}")
    carried = _carried(stops, ["route", "position", "id", "name", *names])
    for number, route in enumerate(itineraries(solution), start=1):
        length = round(in_display_unit(route.cost, instance.metric)[0], _DECIMALS)
        load = None if instance.demand is None else route.load
        facts = {"route": number, "stops": route.stop_count, "load": load, f"distance{unit}": length}
        lines.append(_feature("LineString", [places[node] for node in route.nodes], facts))
        for position, node in enumerate([route.nodes[0], *route.stops]):
            own = {"route": number, "position": position, "id": stops.ids[node], "name": stops.names[node]}
            numbers = dict(zip(names, _numbers(instance, route, position), strict=True))
            rest = {name: column[node] for name, column in carried.items()}
            points.append(_feature("Point", places[node], own | numbers | rest))
    return json.dumps({"type": "FeatureCollection", "features": lines + points}, ensure_ascii=False) + "\n"


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}, "properties": properties}


def _unit(instance: Instance) -> str:
    """Return the end of a column's name that tells the unit, empty if it is not known."""
    unit = in_display_unit(0.0, instance.metric)[1]
    return f"_{unit}" if unit else ""


def _numbers(instance: Instance, route: Itinerary, position: int) -> list[float | None]:
    """Return demand, load so far, leg and distance so far of a stop; None for loads of a TSP."""
    lengths = (route.legs[position], route.distances[position])
    leg, distance = (round(in_display_unit(value, instance.metric)[0], _DECIMALS) for value in lengths)
    if instance.demand is None:
        return [None, None, leg, distance]
    return [float(instance.demand[route.nodes[position]]), route.loads[position], leg, distance]


def _carried(stops: Stops, own: list[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of the input but ids and names; one that has the name of ours gets another."""
    same = [stops.ids, stops.names]
    columns = {}
    for name, cells in stops.columns.items():
        if name.lower() not in own:
            columns[name] = cells
        elif cells not in same:
            columns[f"input {name}"] = cells
    return columns
