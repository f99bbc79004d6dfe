// Draws the data of the page. All text is set as text, so that names from files are never HTML.
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const MOST_BADGES = 1500; // above that, stops are dots on a canvas
  const NAME_WIDTH = 26; // characters of a name on the map
  const many = data.places.length > MOST_BADGES;
  const title = (node) => data.names[node] || data.ids[node];
  const hasNames = data.names.some((name) => name);

  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    made.className = className;
    made.append(...children);
    return made;
  }

  // --- the map

  const map = L.map("map", {
    crs: data.plane ? L.CRS.Simple : L.CRS.EPSG3857,
    zoomSnap: 0.25, minZoom: data.plane ? -6 : 1, maxZoom: data.plane ? 8 : 19, preferCanvas: many,
  });
  map.attributionControl.setPrefix("Leaflet");
  if (data.tiles) L.tileLayer(data.tiles, { maxZoom: 19, attribution: data.credit, opacity: 0.75 }).addTo(map);
  if (data.plane) addPlaneScale();
  else L.control.scale({ imperial: false }).addTo(map);

  const layers = data.routes.map((route) => {
    const line = L.polyline(route.nodes.map((node) => data.places[node]), {
      color: route.colour, weight: many ? 1.5 : 3, dashArray: route.dash || null, opacity: 0.9, lineJoin: "round", interactive: false,
    }).addTo(map);
    return { line, badges: [] };
  });
  const markers = new Map(); // node -> its marker
  const labels = []; // names on the map: { node, element, badge }
  data.routes.forEach((route, r) => {
    route.stops.forEach((node, i) => addStop(node, r, i + 1));
  });
  const start = data.routes.length ? data.routes[0].nodes[0] : 0;
  addStart(start);

  function addStop(node, r, position) {
    const route = data.routes[r];
    if (many) {
      const dot = L.circleMarker(data.places[node], { radius: 3, weight: 0, fillColor: route.colour, fillOpacity: 1 });
      markers.set(node, dot.bindTooltip(() => describe(node, r, position)).addTo(map));
      return;
    }
    const badge = element("span", "stop", String(position));
    badge.style.background = route.colour;
    badge.style.color = route.ink;
    markers.set(node, addBadge(node, badge, () => describe(node, r, position)));
    layers[r].badges.push(markers.get(node));
  }

  function addStart(node) {
    const badge = element("span", "stop start", data.start[0]);
    const marker = addBadge(node, badge, () => element("div", "", element("b", "", title(node)), data.start));
    markers.set(node, marker.setZIndexOffset(10000));
  }

  function addBadge(node, badge, tooltip) {
    const content = element("div", "", badge);
    if (hasNames && data.names[node] && !many) {
      const name = data.names[node];
      const short = name.length > NAME_WIDTH ? name.slice(0, NAME_WIDTH - 1) + "…" : name;
      const label = element("span", "name", short);
      content.append(label);
      labels.push({ node, element: label, badge });
    }
    const icon = L.divIcon({ html: content, className: "", iconSize: [0, 0] });
    return L.marker(data.places[node], { icon, keyboard: false }).bindTooltip(tooltip, { offset: [8, 0] }).addTo(map);
  }

  function describe(node, r, position) {
    const route = data.routes[r];
    const facts = [`route ${r + 1}, stop ${position}`, `${route.distances[position]} from the start`];
    if (route.loads.length) facts.push(`load ${route.loads[position]} so far`);
    if (data.names[node]) facts.push(`id ${data.ids[node]}`);
    return element("div", "", element("b", "", title(node)), facts.join(" · "));
  }

  // Shows the names for which there is room: at the right, left, below or above of their stop.
  function placeNames() {
    const taken = [];
    const free = (box) => taken.every((b) => box[0] > b[2] || box[2] < b[0] || box[1] > b[3] || box[3] < b[1]);
    const points = labels.map((label) => map.latLngToContainerPoint(data.places[label.node]));
    markers.forEach((_, node) => {
      const { x, y } = map.latLngToContainerPoint(data.places[node]);
      taken.push([x - 7, y - 7, x + 7, y + 7]);
    });
    labels.slice().reverse().forEach((label, i) => {
      const { x, y } = points[labels.length - 1 - i];
      const width = label.element.offsetWidth, half = width / 2;
      const gap = label.badge.offsetWidth / 2 + 3, below = label.badge.offsetHeight / 2 + 1;
      const spots = [[gap, -7], [-gap - width, -7], [-half, below], [-half, -below - 13]];
      const spot = spots.find(([dx, dy]) => free([x + dx, y + dy, x + dx + width, y + dy + 13]));
      label.element.classList.toggle("shown", Boolean(spot));
      if (!spot) return;
      label.element.style.left = `${spot[0]}px`;
      label.element.style.top = `${spot[1]}px`;
      taken.push([x + spot[0], y + spot[1], x + spot[0] + width, y + spot[1] + 13]);
    });
  }

  function addPlaneScale() {
    const box = element("div", "plane-scale");
    const control = L.control({ position: "bottomleft" });
    control.onAdd = () => box;
    control.addTo(map);
    map.on("zoomend moveend", () => {
      const perPixel = data.perUnit / map.getZoomScale(map.getZoom(), 0);
      const power = 10 ** Math.floor(Math.log10(100 * perPixel));
      const step = [5, 2, 1].find((s) => s * power <= 100 * perPixel) * power;
      box.style.width = `${step / perPixel}px`;
      box.textContent = Number(step.toPrecision(1)).toLocaleString("en", { maximumSignificantDigits: 1 });
    });
  }

  // --- the legend

  function swatch(route) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", 34);
    svg.setAttribute("height", 10);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [key, value] of Object.entries({ x1: 1, y1: 5, x2: 33, y2: 5, stroke: route.colour, "stroke-width": 4 })) {
      line.setAttribute(key, value);
    }
    if (route.dash) line.setAttribute("stroke-dasharray", route.dash);
    svg.append(line);
    return svg;
  }

  function highlight(chosen) {
    layers.forEach((layer, r) => {
      const dim = chosen !== null && r !== chosen;
      layer.line.setStyle({ opacity: dim ? 0.12 : 0.9 });
      layer.badges.forEach((marker) => marker.getElement().classList.toggle("dim", dim));
    });
  }

  function legendOf(route, r) {
    const stops = route.count;
    const facts = [`${stops} stop${stops === 1 ? "" : "s"}`];
    if (route.load) facts.push(`load ${route.load}`);
    const summary = element("summary", "", swatch(route), element("span", "number", String(r + 1)),
      element("span", "facts", facts.join(", ")), element("span", "length", route.length));
    const list = element("ol", "");
    const details = element("details", "route", summary, list);
    details.addEventListener("toggle", () => { // the list is made when it is first asked for
      if (!list.childElementCount) list.append(...route.nodes.map((node, i) => stopOf(route, node, i)));
    });
    if (!many && data.places.length <= 300) list.append(...route.nodes.map((node, i) => stopOf(route, node, i)));
    details.addEventListener("mouseenter", () => highlight(r));
    details.addEventListener("mouseleave", () => highlight(null));
    return details;
  }

  function stopOf(route, node, i) {
    const end = i === 0 || i > route.stops.length;
    const item = element("li", "", element("span", "position", end ? data.start[0] : String(i)),
      element("span", "title", title(node)), element("span", "length", route.distances[i]));
    item.addEventListener("click", () => {
      map.panTo(data.places[node]);
      markers.get(node).openTooltip();
    });
    return item;
  }

  const panel = document.getElementById("panel");
  panel.append(element("h1", "", data.title), element("p", "", data.summary), element("p", "note", data.note));
  if (labels.length) {
    const box = element("input", "");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => document.getElementById("map").classList.toggle("no-names", !box.checked));
    panel.append(element("label", "", box, " Names on the map, where there is room"));
  }
  panel.append(element("div", "legend", element("span", ""), element("span", "", "no."), element("span", "", "stops, load"),
    element("span", "", "length")));
  panel.append(...data.routes.map(legendOf));
  panel.append(element("footer", "note", "Made by elgo."));

  map.on("zoomend resize", placeNames);
  map.fitBounds(L.latLngBounds(data.places), { padding: [40, 40], animate: false });
  placeNames();
})();
