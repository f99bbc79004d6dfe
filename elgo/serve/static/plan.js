// The plane with stops and routes: Leaflet pans and zooms, one canvas draws everything.

import { drawPlan } from "./draw.js";
import { number, onTheme } from "./format.js";

const SIDE = 1000; // coordinates are scaled to a square of this side
const NEAR_STOP = 12; // pixels from the pointer
const NEAR_LEG = 6;

// Leaflet's base class of renderers keeps the canvas in place while the map moves and zooms; we only draw.
const Canvas = L.Renderer.extend({
  options: { padding: 0.3 },

  initialize(paint) {
    L.Renderer.prototype.initialize.call(this);
    this._paint = paint;
  },

  getEvents() {
    return { ...L.Renderer.prototype.getEvents.call(this), move: this._onMove };
  },

  _initContainer() {
    this._container = document.createElement("canvas");
  },

  _destroyContainer() {
    this._container.remove();
  },

  // Draws again during a drag only when the reader drags beyond what is drawn.
  _onMove() {
    const view = this._map.getPixelBounds();
    const origin = this._map.getPixelOrigin();
    if (!this._bounds.contains(L.bounds(view.min.subtract(origin), view.max.subtract(origin)))) this._update();
  },

  _update() {
    if (this._map._animatingZoom && this._bounds) return;
    L.Renderer.prototype._update.call(this);
    const { min } = this._bounds;
    const size = this._bounds.getSize();
    const ratio = window.devicePixelRatio || 1;
    L.DomUtil.setPosition(this._container, min);
    this._container.width = size.x * ratio;
    this._container.height = size.y * ratio;
    this._container.style.width = `${size.x}px`;
    this._container.style.height = `${size.y}px`;
    const context = this._container.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, -min.x * ratio, -min.y * ratio);
    this._paint(context, this._bounds);
  },
});

export class Plan {
  // onHover(node, route): what the pointer is on, null for nothing. onClick(x, y): in coordinates of the instance.
  constructor(element, { onHover = () => {}, onClick = () => {} } = {}) {
    this.scene = { xs: [], ys: [], depot: false, routes: [], slots: [], highlight: null, replay: null, grid: false };
    this.onHover = onHover;
    this.map = L.map(element, {
      crs: L.CRS.Simple, attributionControl: false, zoomSnap: 0, zoomDelta: 0.5, wheelPxPerZoomLevel: 120,
      minZoom: -4, maxZoom: 8, maxBoundsViscosity: 0.8,
    });
    this.map.setView([SIDE / 2, SIDE / 2], -1);
    this.canvas = new Canvas((context, bounds) => drawPlan(context, bounds, this.scene, this.projection())).addTo(this.map);
    this.tooltip = L.tooltip({ direction: "top", offset: [0, -8], opacity: 1 });
    for (const kind of ["pointerdown", "wheel", "keydown"]) element.addEventListener(kind, () => (this.touched = true));
    this.map.on("mousemove", (event) => this.hover(this.at(event.layerPoint)));
    this.map.on("mouseout", () => this.hover({ node: null, route: null }));
    this.map.on("click", (event) => {
      this.hover(this.at(event.layerPoint));
      onClick(...this.toInstance(event.latlng));
    });
    this.watcher = new ResizeObserver(() => this.resized());
    this.watcher.observe(element);
    this.closed = new AbortController();
    onTheme(() => this.draw(), this.closed.signal);
  }

  // Shows the stops of an instance. frame: the square that is shown, instead of the stops' own.
  setInstance({ coordinates, demand, names, latlon, open = false }, frame = null) {
    const points = coordinates ? coordinates.map(latlon ? mercator : ([x, y]) => [x, y]) : [];
    const box = frame ?? boundingBox(points);
    this.scale = SIDE / box.side;
    this.corner = box.corner;
    this.instance = { demand, names };
    Object.assign(this.scene, {
      xs: Float64Array.from(points, (point) => (point[0] - box.corner[0]) * this.scale),
      ys: Float64Array.from(points, (point) => (point[1] - box.corner[1]) * this.scale),
      depot: demand != null, open, routes: [], slots: [], highlight: null, replay: null, grid: frame !== null,
    });
    const extent = frame ? [SIDE, SIDE] : box.extent.map((length) => length * this.scale);
    this.bounds = L.latLngBounds([[0, 0], [extent[1], extent[0]]]);
    this.map.setMaxBounds(this.bounds.pad(1));
    this.fit();
  }

  // Adds stops of an instance whose frame stays, such as one that is clicked together.
  setStops(coordinates, demand) {
    this.instance = { demand, names: null };
    this.scene.xs = Float64Array.from(coordinates, (point) => (point[0] - this.corner[0]) * this.scale);
    this.scene.ys = Float64Array.from(coordinates, (point) => (point[1] - this.corner[1]) * this.scale);
    Object.assign(this.scene, { depot: demand != null, routes: [], slots: [] });
    this.draw();
  }

  setRoutes(routes, slots) {
    Object.assign(this.scene, { routes, slots });
    this.routeOf = new Map(routes.flatMap((route, index) => route.map((node) => [node, index])));
    this.draw();
  }

  highlight(route) {
    if (this.scene.highlight === route) return;
    this.scene.highlight = route;
    this.draw();
  }

  // Shows a step of the construction: {path, current, chosen, candidates}; null for none.
  setReplay(step) {
    this.scene.replay = step;
    this.draw();
  }

  draw() {
    this.canvas._update();
  }

  fit() {
    this.touched = false;
    this.map.fitBounds(this.bounds, { animate: false, padding: [24, 24] });
  }

  // Keeps showing the whole instance when the element changes its size, unless the reader has moved or zoomed.
  resized() {
    this.map.invalidateSize({ animate: false });
    if (this.bounds && !this.touched) this.fit();
  }

  // Zooms to one route.
  show(index) {
    const { xs, ys, depot, routes } = this.scene;
    const nodes = depot ? [0, ...routes[index]] : routes[index];
    this.map.fitBounds(L.latLngBounds(nodes.map((node) => [ys[node], xs[node]])), { padding: [40, 40] });
  }

  // Affine map from scaled coordinates to the canvas.
  projection() {
    const origin = this.map.latLngToLayerPoint([0, 0]);
    return { scale: this.map.options.crs.scale(this.map.getZoom()), x: origin.x, y: origin.y };
  }

  toInstance(latlng) {
    return [latlng.lng / this.scale + this.corner[0], latlng.lat / this.scale + this.corner[1]];
  }

  // The node and the route under a point of the canvas: the nearest stop, else the nearest leg.
  at(point) {
    const { scale, x, y } = this.projection();
    const { xs, ys } = this.scene;
    let [node, best] = [null, NEAR_STOP ** 2];
    for (let i = 0; i < xs.length; i += 1) {
      const distance = (x + xs[i] * scale - point.x) ** 2 + (y - ys[i] * scale - point.y) ** 2;
      if (distance < best) [node, best] = [i, distance];
    }
    if (node !== null) return { node, route: this.routeOf?.get(node) ?? null };
    return { node, route: this.legAt((point.x - x) / scale, (y - point.y) / scale, NEAR_LEG / scale) };
  }

  legAt(px, py, reach) {
    const { xs, ys, routes } = this.scene;
    let [found, best] = [null, reach ** 2];
    routes.forEach((route, index) => {
      for (let i = 1; i < route.length; i += 1) {
        const [ax, ay, dx, dy] = [xs[route[i - 1]], ys[route[i - 1]], xs[route[i]] - xs[route[i - 1]], ys[route[i]] - ys[route[i - 1]]];
        const t = Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)));
        const distance = (ax + t * dx - px) ** 2 + (ay + t * dy - py) ** 2;
        if (distance < best) [found, best] = [index, distance];
      }
    });
    return found;
  }

  hover({ node, route }) {
    if (node === this.hovered?.node && route === this.hovered?.route) return;
    this.hovered = { node, route };
    this.onHover(node, route);
    if (node === null) return this.map.closeTooltip(this.tooltip);
    const text = document.createElement("span");
    text.textContent = this.describe(node, route);
    this.tooltip.setContent(text).setLatLng([this.scene.ys[node], this.scene.xs[node]]);
    return this.map.openTooltip(this.tooltip);
  }

  describe(node, route) {
    const { demand, names } = this.instance;
    const depot = this.scene.depot && node === 0;
    const parts = [names?.[node] || (depot ? "Depot" : `Stop ${node}`)];
    if (!depot && demand) parts.push(`demand ${number(demand[node])}`);
    if (route !== null && !depot) parts.push(`route ${route + 1}`);
    return parts.join(", ");
  }

  // Lets another plan show the same part.
  follow(other) {
    other.map.on("move", () => {
      if (other.moving) return;
      this.moving = true;
      this.map.setView(other.map.getCenter(), other.map.getZoom(), { animate: false });
      this.moving = false;
    });
  }

  remove() {
    this.watcher.disconnect();
    this.closed.abort();
    this.map.remove();
  }
}

function boundingBox(points) {
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (const point of points) {
    for (const axis of [0, 1]) {
      low[axis] = Math.min(low[axis], point[axis]);
      high[axis] = Math.max(high[axis], point[axis]);
    }
  }
  if (!points.length) return { corner: [0, 0], extent: [1, 1], side: 1 };
  const extent = [high[0] - low[0], high[1] - low[1]];
  return { corner: low, extent, side: Math.max(...extent) || 1 };
}

// Latitude and longitude in degrees to the plane of Web Mercator.
function mercator([latitude, longitude]) {
  const y = Math.log(Math.tan(Math.PI / 4 + (Math.max(-85, Math.min(85, latitude)) * Math.PI) / 360));
  return [longitude, (y * 180) / Math.PI];
}
