// What is shown of one run: its summary, the plane, the list of routes, downloads and the replay.

import { download } from "./api.js";
import { copy, element } from "./dom.js";
import { number, percent, ROUTE_COLOURS, withUnit } from "./format.js";
import { Plan } from "./plan.js";
import { Replay } from "./replay.js";
import { assignSlots, nodeSlots } from "./slots.js";

const STATES = { waiting: "waiting", running: "running", finished: "finished", stopped: "stopped, best kept", failed: "failed" };
const FORMATS = { sol: ".sol", csv: "CSV", geojson: "GeoJSON", json: "JSON" };
let created = 0;

export class View {
  // onClick(x, y): a click onto the plane; report(error): shows an error
  constructor(parent, { onClick, report }) {
    this.element = document.getElementById("view").content.cloneNode(true).firstElementChild;
    parent.append(this.element);
    this.report = report;
    this.shown = { job: null, solution: null, before: null };
    this.plan = new Plan(this.find(".plan"), { onClick, onHover: (_, route) => this.mark(route) });
    this.find(".stop").addEventListener("click", () => this.run.stop().catch(report));
    this.find(".link").addEventListener("click", ({ target }) => {
      copy(`${location.origin}/#job=${this.run.id}`, target).catch(report);
    });
    for (const [format, label] of Object.entries(FORMATS)) this.addDownload(format, label);
    created += 1;
    for (const radio of this.element.querySelectorAll(".side input[type=radio]")) {
      radio.name = `listed-${created}`;
      radio.addEventListener("change", () => this.list(radio.value));
    }
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  // Shows an instance that is not sent yet.
  preview(title, instance, frame) {
    this.find(".title").textContent = title;
    if (frame && this.frame) this.plan.setStops(instance.coordinates, instance.demand);
    else this.plan.setInstance(instance, frame);
    this.frame = frame;
    this.describePlane(instance, null);
  }

  // Shows a run as it is now.
  show(run) {
    this.run = run;
    const { job } = run;
    if (this.shown.job !== job.id) {
      this.plan.setInstance(job.instance);
      this.shown = { job: job.id, solution: null, before: null };
      this.frame = null;
    }
    this.summarise(run);
    if (job.solution && this.shown.solution !== job.solution) this.showSolution(job);
    this.find(".side").hidden = !job.solution;
    this.find(".side .segments").hidden = !job.instance.coordinates;
    this.find(".geojson").hidden = !job.instance.latlon; // places on the earth only
  }

  summarise({ job, active, fraction, method }) {
    this.find(".title").textContent = `${job.name || "unnamed"}: ${method}`;
    this.find(".cost").textContent = job.solution ? withUnit(job.solution.cost, job.unit) : "";
    this.find(".gap").textContent = job.solution?.gap == null ? "" : `${percent(job.solution.gap)} above the best known`;
    this.find(".state").textContent = STATES[job.state];
    this.find(".state").dataset.state = job.state;
    this.find(".stop").hidden = !active;
    this.find(".link").hidden = false;
    const bar = this.find(".bar");
    bar.hidden = !active;
    bar.setAttribute("aria-valuenow", Math.round(100 * fraction));
    bar.firstElementChild.style.width = `${100 * fraction}%`;
    const error = this.find(".error");
    error.hidden = !job.error;
    error.textContent = job.error ?? "";
    this.find(".warnings").replaceChildren(...job.warnings.map((line) => element("li", "", line)));
  }

  showSolution({ instance, solution, unit }) {
    const { coordinates } = instance;
    const slots = assignSlots(solution.routes, coordinates, this.shown.before);
    const nodes = 1 + solution.routes.reduce((most, route) => route.reduce((a, b) => Math.max(a, b), most), 0);
    this.shown.solution = solution;
    this.shown.before = nodeSlots(solution.routes, slots, nodes);
    if (coordinates) this.plan.setRoutes(solution.routes, slots);
    this.listRoutes(solution, instance.capacity, slots, unit);
    this.describePlane(instance, solution);
  }

  describePlane({ coordinates, demand }, solution) {
    const plane = this.find(".plan");
    plane.classList.toggle("empty", !coordinates);
    const stops = `${(coordinates?.length ?? 0) - (demand ? 1 : 0)} stops`;
    const routes = solution ? `, ${solution.routes.length} route${solution.routes.length === 1 ? "" : "s"}` : "";
    plane.setAttribute("role", "application");
    plane.setAttribute("aria-label", `Plane with ${stops}${routes}; arrow keys move it, plus and minus zoom`);
  }

  listRoutes({ routes, loads, lengths }, capacity, slots, unit) {
    const list = this.find(".routes");
    while (list.children.length > routes.length) list.lastElementChild.remove();
    while (list.children.length < routes.length) list.append(this.routeRow(list.children.length));
    routes.forEach((route, index) => {
      const row = list.children[index].firstElementChild;
      const [name, length, load] = row.querySelectorAll("span");
      row.className = `route slot-${slots[index] % ROUTE_COLOURS}`;
      name.textContent = `${index + 1}`;
      length.textContent = `${withUnit(lengths[index], unit)}, ${route.length} stop${route.length === 1 ? "" : "s"}`;
      load.textContent = loads ? `${number(loads[index])} / ${number(capacity)}` : "";
      row.querySelector(".load").hidden = !loads;
      if (loads) row.querySelector(".load i").style.width = `${Math.min(100, (100 * loads[index]) / capacity)}%`;
    });
  }

  // A row of the list: hovering or focusing it highlights its route, a click zooms to it.
  routeRow(index) {
    const row = element("button", "route");
    row.type = "button";
    row.append(element("span", "name"), element("span", "length"), element("span", "amount"), element("div", "load"));
    row.querySelector(".load").append(element("i"));
    for (const kind of ["mouseenter", "focus"]) row.addEventListener(kind, () => this.mark(index, false));
    for (const kind of ["mouseleave", "blur"]) row.addEventListener(kind, () => this.mark(null, false));
    row.addEventListener("click", () => this.run.job.instance.coordinates && this.plan.show(index));
    const item = element("li");
    item.append(row);
    return item;
  }

  // Highlights a route in the plane and in the list; null for none.
  mark(route, scroll = true) {
    this.plan.highlight(route);
    this.find(".route.marked")?.classList.remove("marked");
    const row = route === null ? null : this.find(".routes").children[route]?.firstElementChild;
    row?.classList.add("marked");
    if (row && scroll) keepVisible(row, this.find(".routes"));
  }

  list(what) {
    this.find(".listing").hidden = what !== "routes";
    this.find(".replay").hidden = what !== "replay";
    this.replay?.close();
    this.replay = null;
    if (what !== "replay") return;
    this.replay = new Replay(this.find(".replay"), this.plan, this.run.job);
  }

  addDownload(format, label) {
    const button = element("button", format, label);
    button.type = "button";
    button.addEventListener("click", () => {
      download(`/jobs/${this.run.id}/solution.${format}`).catch(this.report);
    });
    this.find(".downloads").append(button);
  }

  remove() {
    this.replay?.close();
    this.plan.remove();
    this.element.remove();
  }
}

// Scrolls the list, and nothing around it, until the row is visible.
function keepVisible(row, list) {
  const [inner, outer] = [row.getBoundingClientRect(), list.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
}
