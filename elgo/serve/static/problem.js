// The form: where the problem comes from, and how it is to be solved.

import { postJSON, request } from "./api.js";
import { byId, element } from "./dom.js";

const FRAME = { corner: [0, 0], side: 1000 }; // the plane that stops are clicked onto
const POINTS = ["uniform", "cluster", "mixture", "explosion", "rotation", "lattice", "gaussians", "roads", "mixed"];
const DISTRIBUTIONS = { tsp: POINTS, cvrp: ["set_x", "set_x_long", "xxl", ...POINTS] };
const STARTS = { search: {}, elg: { start: "elg" } };

export class ProblemForm {
  // onPreview(title, instance, frame): shows an instance that is not sent yet
  constructor({ onPreview, onChange, report }) {
    Object.assign(this, { onPreview, onChange, report, generated: null, file: null });
    byId("problem").addEventListener("input", () => onChange());
    for (const radio of document.querySelectorAll("[name=kind]")) radio.addEventListener("change", () => this.choose());
    byId("file").addEventListener("change", ({ target }) => target.files[0] && this.take(target.files[0]));
    byId("generate").addEventListener("click", () => this.generate().catch(report));
    byId("generate-problem").addEventListener("change", () => this.listDistributions());
    byId("click-stops").addEventListener("input", () => this.previewStops());
    byId("click-capacity").addEventListener("input", () => this.previewStops());
    byId("click-undo").addEventListener("click", () => this.setStops(this.lines().slice(0, -1)));
    byId("click-clear").addEventListener("click", () => this.setStops([]));
    this.listDistributions();
    this.acceptDrops();
  }

  get kind() {
    return document.querySelector("[name=kind]:checked").value;
  }

  // Shows the fields of the chosen kind, and what is prepared there.
  choose(kind = this.kind) {
    document.querySelector(`[name=kind][value=${kind}]`).checked = true;
    for (const part of document.querySelectorAll("[data-kind]")) part.hidden = part.dataset.kind !== kind;
    if (kind === "click") this.previewStops();
    if (kind === "generate" && this.generated) this.onPreview(this.generated.name, this.generated);
    this.onChange();
  }

  take(file) {
    this.file = file;
    byId("file-name").textContent = file.name;
    this.choose("file");
  }

  // A file can be dropped anywhere on the page.
  acceptDrops() {
    const over = (on) => byId("drop").classList.toggle("over", on);
    addEventListener("dragover", (event) => {
      event.preventDefault();
      over(true);
    });
    addEventListener("dragleave", () => over(false));
    addEventListener("drop", (event) => {
      event.preventDefault();
      over(false);
      if (event.dataTransfer.files[0]) this.take(event.dataTransfer.files[0]);
    });
  }

  listDistributions() {
    const options = DISTRIBUTIONS[byId("generate-problem").value].map((name) => element("option", "", name));
    const before = byId("generate-distribution").value;
    byId("generate-distribution").replaceChildren(...options);
    byId("generate-distribution").value = options.some(({ value }) => value === before) ? before : "uniform";
  }

  // The body of POST /generate.
  recipe() {
    const value = (id) => byId(`generate-${id}`).value;
    return { problem: value("problem"), size: Number(value("size")), distribution: value("distribution"), seed: Number(value("seed")) };
  }

  async generate() {
    const recipe = this.recipe();
    const { instance } = await postJSON("/generate", recipe);
    this.generated = instance;
    this.generatedBy = JSON.stringify(recipe);
    this.onPreview(this.generated.name, this.generated);
  }

  // Clicked stops live in the text field, a line each, so that they can be edited and typed.
  lines() {
    return byId("click-stops").value.split("\n").filter((line) => line.trim());
  }

  setStops(lines) {
    byId("click-stops").value = lines.map((line) => `${line}\n`).join("");
    this.previewStops();
    this.onChange();
  }

  addStop(x, y) {
    if (this.kind !== "click") this.choose("click");
    const demand = byId("click-capacity").value && this.lines().length ? 1 : 0;
    const place = `${Math.round(x)}, ${Math.round(y)}`;
    this.setStops([...this.lines(), byId("click-capacity").value ? `${place}, ${demand}` : place]);
  }

  previewStops() {
    this.onPreview(`${this.lines().length} stops on the plane`, this.clicked(), FRAME);
  }

  // The instance of the clicked stops; numbers that cannot be read are left to the service to refuse.
  clicked() {
    const rows = this.lines().map((line) => line.split(/[\s,;]+/).filter(Boolean).map(Number));
    const capacity = byId("click-capacity").value;
    const instance = { name: "clicked", coordinates: rows.map(([x, y]) => [x, y]) };
    return capacity ? { ...instance, demand: rows.map((row, i) => row[2] ?? (i ? 1 : 0)), capacity: Number(capacity) } : instance;
  }

  // An instance with open routes if they are asked for.
  withEnds(instance) {
    return byId("open").checked ? { ...instance, open: true } : instance;
  }

  // The options of a job. method: search, elg or policy
  options(method = byId("method").value) {
    return method === "policy" ? { policy_only: true } : { ...STARTS[method], seconds: Number(byId("seconds").value) };
  }

  // Sends the problem and returns the id of its job.
  async send(options) {
    if (this.kind === "file") return this.sendFile(options);
    if (this.kind === "generate" && this.generatedBy !== JSON.stringify(this.recipe())) await this.generate();
    const instance = this.withEnds(this.kind === "generate" ? this.generated : this.clicked());
    return (await postJSON("/jobs", { instance, options })).id;
  }

  async sendFile(options) {
    if (!this.file) throw new Error("choose a file first, or generate a problem");
    const body = new FormData();
    body.append("file", this.file, this.file.name);
    body.append("options", JSON.stringify(options));
    if (byId("file-capacity").value) body.append("capacity", byId("file-capacity").value);
    if (byId("open").checked) body.append("open", "true");
    return (await (await request("/jobs", { method: "POST", body })).json()).id;
  }
}
