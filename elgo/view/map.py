"""A solution as a map: one HTML page that needs nothing else, neither files nor a network.

The page is map.html with Leaflet, map.css, map.js and the data in JSON. Text from files reaches it as JSON only, and
map.js writes it as text: never as HTML.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

import numpy as np

from elgo.problem.distances import FloatArray
from elgo.problem.errors import ElgoError
from elgo.problem.files.text import format_number, printable
from elgo.problem.instance import Instance, Metric
from elgo.problem.itinerary import Itinerary, itineraries, short_length
from elgo.problem.plane import unwrapped
from elgo.problem.solution import Solution
from elgo.problem.stops import Stops
from elgo.view.palette import RouteStyle, route_styles

OPEN_STREET_MAP = "https://tile.openstreetmap.org/{z}/{x}/{y}.png"
_CREDIT = "© OpenStreetMap contributors"
_PLANE_SIDE = 1000.0  # of the square that x, y are scaled to
_TILE_URL = re.compile(r"https?://[\w.{}-]+(:\d+)?/[^\s;,'\"<>]*")
_NOTES = {
    "globe": "Distances are straight lines over the earth (great circles), not roads.",
    "plane": "Distances are straight lines.",
    "rounded": "Distances are straight lines, rounded as the file's format says.",
    "matrix": "Distances or times are those of the matrix; on the map, straight lines join the stops.",
}


def format_map(solution: Solution, stops: Stops, tiles: str | None = None) -> str:
    """Return the page; `tiles` is the URL of street tiles with {z}, {x} and {y}, "osm", or None for no background.

    Raises ElgoError if there are no coordinates, or tiles for coordinates that are not latitude and longitude.
    """
    data = map_data(solution, stops, tiles)
    script = _part("leaflet/leaflet.js").replace("//# sourceMappingURL=leaflet.js.map", "") + "\n" + _part("map.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    host = re.sub(r"\{\w+\}", "*", data["tiles"].split("/")[2]) if data["tiles"] else ""
    parts = {
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data: {host}",
        "TITLE": html.escape(data["title"]),
        "LICENCE": _part("leaflet/LICENSE"),
        "STYLE": _part("leaflet/leaflet.css") + _part("map.css"),
        "DATA": _script_json(data),
        "SCRIPT": script,
    }
    return re.sub(r"%%([A-Z]+)%%", lambda match: parts[match[1]], _part("map.html"))


def map_data(solution: Solution, stops: Stops, tiles: str | None = None) -> dict[str, Any]:
    """Return what the page shows, as JSON values; `places` are [north, east] of each node."""
    instance = solution.instance
    places, per_unit = _places(instance, stops)
    url = None if tiles is None else tile_url(tiles, stops)
    routes = itineraries(solution)
    styles = route_styles(solution)
    return {
        "title": printable(instance.name),
        "summary": _summary(solution, len(routes)),
        "note": _NOTES[_kind_of_distance(instance, stops)],
        "tiles": url,
        "credit": _CREDIT if url == OPEN_STREET_MAP else "",
        "plane": stops.degrees is None,
        "perUnit": per_unit,  # length of one unit of the map, for the scale of a plane
        "start": "Depot" if instance.problem == "cvrp" else "Start",
        "places": places.round(7).tolist(),
        "ids": [printable(text) for text in stops.ids],
        "names": [printable(text) for text in stops.names],
        "routes": [_route(instance, route, style) for route, style in zip(routes, styles, strict=True)],
    }


def tile_url(tiles: str, stops: Stops) -> str:
    """Return the URL of street tiles; ElgoError if it is none, or the stops have no latitudes and longitudes."""
    if stops.degrees is None:
        raise ElgoError("street tiles need latitude and longitude, but the stops have x, y")
    url = OPEN_STREET_MAP if tiles == "osm" else tiles
    if not (_TILE_URL.fullmatch(url) and all(f"{{{axis}}}" in url for axis in "zxy")):
        raise ElgoError(f"street tiles are {url!r}, expected osm or a URL such as {OPEN_STREET_MAP}")
    return url


def _route(instance: Instance, route: Itinerary, style: RouteStyle) -> dict[str, Any]:
    loads = [format_number(load) for load in route.loads] if instance.demand is not None else []
    return {
        "colour": style.colour,
        "ink": style.ink,
        "dash": " ".join(map(str, style.dash)),
        "length": short_length(route.cost, instance.metric),
        "load": f"{loads[-1]} / {format_number(instance.capacity)}" if instance.capacity is not None else "",
        "nodes": list(route.nodes),
        "stops": list(route.stops),
        "count": route.stop_count,
        "distances": [short_length(distance, instance.metric) for distance in route.distances],
        "loads": loads,
    }


def _places(instance: Instance, stops: Stops) -> tuple[FloatArray, float]:
    """Return (n, 2) places as [north, east], and the length of their unit: degrees, or a plane scaled to a square."""
    if stops.degrees is not None:
        return np.stack([stops.degrees[:, 0], unwrapped(stops.degrees[:, 1])], axis=1), 1.0
    if not instance.has_coords:
        raise ElgoError("a map needs coordinates, but the stops have none")
    low = instance.coords.min(axis=0)
    per_unit = float(np.ptp(instance.coords, axis=0).max() or 1.0) / _PLANE_SIDE
    return ((instance.coords - low) / per_unit)[:, ::-1], per_unit


def _kind_of_distance(instance: Instance, stops: Stops) -> str:
    if instance.metric is Metric.EXPLICIT:
        return "matrix"
    return "globe" if stops.degrees is not None else "rounded" if instance.metric.rounded else "plane"


def _summary(solution: Solution, routes: int) -> str:
    instance = solution.instance
    length = short_length(solution.cost, instance.metric)
    total = length if " " in length else f"total {length}"
    if instance.problem == "tsp":
        return f"{instance.size} stops, {total}"
    return f"{instance.customers} stops, {routes} route{'s' if routes != 1 else ''}, {total}"


def _script_json(data: dict[str, Any]) -> str:
    """Return JSON that can stand inside of <script>: no character of it means anything to HTML."""
    text = json.dumps(data)  # all but ASCII is escaped
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _part(name: str) -> str:
    return files("elgo.view").joinpath(name).read_text(encoding="utf-8")
