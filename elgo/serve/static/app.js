// The page: a form, the runs that the address names (#job=ID, or two as #job=ID&with=ID), and the list of jobs.

import { getJSON } from "./api.js";
import { CostChart } from "./chart.js";
import { commands } from "./curl.js";
import { byId, copy, element } from "./dom.js";
import { number, percent, withUnit } from "./format.js";
import { ProblemForm } from "./problem.js";
import { Run } from "./run.js";
import { View } from "./view.js";

const REFRESH = 5000; // milliseconds between two looks at the list of jobs
const SPOKEN = 4000; // milliseconds between two announcements of the cost

let runs = [];
let views = [];
let dirty = false;
let spoken = 0;
let token = false; // the service wants one

const chart = new CostChart(byId("chart"), byId("chart-text"));
const form = new ProblemForm({ onPreview: preview, onChange: showCommands, report });

function report(error) {
  byId("error").textContent = error.message;
  byId("error").hidden = false;
}

function clearError() {
  byId("error").hidden = true;
}

// Keeps as many views as there are runs, at least one.
function setViews(count) {
  while (views.length > count) views.pop().remove();
  while (views.length < count) views.push(new View(byId("views"), { onClick: addStop, report }));
  byId("views").classList.toggle("two", count === 2);
}

// Shows an instance that is not sent yet, instead of the runs.
function preview(title, instance, frame) {
  clearError();
  if (runs.length) {
    history.replaceState(null, "", location.pathname);
    showRuns([]);
  }
  views[0].preview(title, instance, frame);
}

// A click adds a stop where the empty plane or clicked stops are shown.
function addStop(x, y) {
  if (views[0].frame) form.addStop(x, y);
}

function showRuns(ids) {
  for (const run of runs) run.close();
  runs = [];
  setViews(0);
  setViews(Math.max(1, ids.length));
  if (ids.length === 2) {
    views[0].plan.follow(views[1].plan);
    views[1].plan.follow(views[0].plan);
  }
  runs = ids.map((id) => new Run(id, redraw));
  for (const run of runs) run.follow().then(listJobs).catch(report);
  chart.set([]);
  showCommands();
}

// Draws at the next frame, however many events arrive before.
function redraw() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => {
    dirty = false;
    runs.forEach((run, i) => run.job && views[i].show(run));
    chart.set(curves());
    announce();
  });
}

// The curves of the runs. Those that have ended are drawn as far as the longest one.
function curves() {
  const known = runs.filter(({ job }) => job);
  const used = known.map(({ job, fraction, active }) => {
    const planned = active || job.state === "finished" ? (job.options.seconds ?? 0) * fraction : 0;
    return Math.max(planned, job.history.at(-1)?.[0] ?? 0);
  });
  return known.map(({ job, method, active }, i) => {
    return { label: method, history: job.history, until: active ? used[i] : Math.max(...used), bestKnown: job.instance.best_known, unit: job.unit };
  });
}

// Tells screen readers the cost now and then, and at the end.
function announce() {
  const active = runs.some((run) => run.active);
  if (active && performance.now() - spoken < SPOKEN) return;
  spoken = performance.now();
  byId("status").textContent = runs.filter(({ job }) => job?.solution).map(({ job, method }) => {
    const gap = job.solution.gap == null ? "" : `, ${percent(job.solution.gap)} above the best known`;
    return `${method} ${job.state}: cost ${withUnit(job.solution.cost, job.unit)}${gap}.`;
  }).join(" ");
}

function showCommands() {
  byId("curl").textContent = commands(form, runs, token);
}

async function start(methods) {
  if (!byId("problem").reportValidity()) return;
  clearError();
  byId("start").disabled = byId("compare").disabled = true;
  try {
    const ids = [];
    for (const method of methods) ids.push(await form.send(form.options(method)));
    if (byId("views").getBoundingClientRect().top > innerHeight / 2) byId("views").scrollIntoView(); // on a phone
    location.hash = ids.length === 2 ? `job=${ids[0]}&with=${ids[1]}` : `job=${ids[0]}`;
    listJobs();
  } catch (error) {
    report(error);
  } finally {
    byId("start").disabled = byId("compare").disabled = false;
  }
}

// The jobs that the address names.
function named() {
  const address = new URLSearchParams(location.hash.slice(1));
  return ["job", "with"].map((key) => address.get(key)).filter(Boolean);
}

// Brings the list of jobs up to date. A job's row stays the same element, which keeps the focus.
async function listJobs() {
  const jobs = await getJSON("/jobs?limit=20");
  byId("no-jobs").hidden = jobs.length > 0;
  const list = byId("jobs");
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]));
  for (const [id, row] of rows) if (!jobs.some((job) => job.id === id)) row.remove();
  jobs.forEach((job, place) => {
    const row = rows.get(job.id) ?? jobRow(job.id);
    if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null);
    fillRow(row, job);
  });
}

function jobRow(id) {
  const row = element("li");
  row.dataset.id = id;
  row.append(element("a"), element("span", "hint"), element("a", "beside", "beside"));
  return row;
}

function fillRow(row, job) {
  const [link, about, beside] = row.children;
  const name = job.name || job.id;
  link.textContent = name;
  link.href = `#job=${job.id}`;
  if (named().includes(job.id)) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
  const cost = job.cost == null ? "" : `, cost ${number(job.cost)}`;
  const state = job.state === "finished" ? "" : `, ${job.state}`;
  about.textContent = `${job.problem.toUpperCase()}, ${job.nodes} nodes${cost}${state}`;
  const shown = runs[0]?.job;
  beside.hidden = !(runs.length === 1 && shown && shown.id !== job.id && shown.name === job.name);
  beside.href = `#job=${shown?.id}&with=${job.id}`;
  beside.setAttribute("aria-label", `Show ${name} beside the current run`);
}

async function showHealth() {
  const { version, workers, token: wanted } = await getJSON("/health");
  token = wanted;
  showCommands();
  byId("health").textContent = `${version}, ${workers} worker${workers === 1 ? "" : "s"}`;
}

// Lists the jobs again and again while the page is visible.
async function keepListing() {
  if (!document.hidden) await listJobs().catch((error) => error.status === 401 && report(error));
  setTimeout(keepListing, REFRESH);
}

byId("problem").addEventListener("submit", (event) => {
  event.preventDefault();
  start([byId("method").value]);
});
byId("compare").addEventListener("click", () => start(["policy", "search"]));
byId("copy-curl").addEventListener("click", ({ target }) => copy(byId("curl").textContent, target).catch(report));
addEventListener("hashchange", () => {
  clearError();
  showRuns(named());
});

showRuns(named());
if (!named().length) preview("Drop a file, generate a problem, or click stops onto the plane", { coordinates: [] }, { corner: [0, 0], side: 1000 });
showHealth().catch(report);
keepListing();
