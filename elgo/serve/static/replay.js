// Replay of a construction by the ELG policy: one stop after the other, with the scores of both policies.

import { getJSON } from "./api.js";
import { element } from "./dom.js";
import { number } from "./format.js";

const PACE = 350; // milliseconds per step

export class Replay {
  constructor(parent, plan, job) {
    parent.replaceChildren(document.getElementById("replay").content.cloneNode(true));
    Object.assign(this, { parent, plan, job, steps: [] });
    const on = (selector, kind, act) => parent.querySelector(selector).addEventListener(kind, act);
    on(".play", "click", () => this.toggle());
    on(".back", "click", () => this.go(this.at - 1));
    on(".forward", "click", () => this.go(this.at + 1));
    on(".steps", "input", (event) => this.go(Number(event.target.value)));
    on(".start", "change", (event) => this.load(event.target.value));
    this.load("");
  }

  // Reads the construction that begins at a stop; "" is the service's choice.
  async load(start) {
    this.stop();
    try {
      const query = start === "" ? "" : `?start=${encodeURIComponent(start)}`;
      this.steps = (await getJSON(`/jobs/${this.job.id}/trace${query}`)).steps;
    } catch (error) {
      this.parent.querySelector(".where").textContent = error.message;
      return;
    }
    if (this.closed) return;
    this.parent.querySelector(".steps").max = this.steps.length;
    this.go(0);
  }

  // Shows the state before step k; after the last step, the whole solution.
  go(k) {
    if (!this.steps.length) return;
    this.at = Math.max(0, Math.min(this.steps.length, k));
    if (this.at === this.steps.length) this.stop();
    const done = this.steps.slice(0, this.at);
    const first = this.steps[0].current;
    const path = [...(this.job.instance.demand ? [0] : []), first, ...done.map(({ chosen }) => chosen)];
    const step = this.steps[this.at];
    const candidates = step ? withShares(step.candidates) : [];
    if (!step) path.push(path[0]);
    this.plan.setReplay({ path, current: step?.current ?? null, chosen: step?.chosen ?? null, candidates });
    this.parent.querySelector(".steps").value = this.at;
    this.parent.querySelector(".where").textContent = this.describe(step);
    this.parent.querySelector("tbody").replaceChildren(...candidates.map((move) => scoreRow(move, move.node === step.chosen)));
  }

  describe(step) {
    const count = `Step ${Math.min(this.at + 1, this.steps.length)} of ${this.steps.length}`;
    if (!step) return `${count}: complete.`;
    const load = step.load == null ? "" : `, load ${number(step.load)} of ${number(this.job.instance.capacity)}`;
    return `${count}: from ${this.name(step.current)} to ${this.name(step.chosen)}${load}.`;
  }

  name(node) {
    const { names, demand } = this.job.instance;
    return names?.[node] || (node === 0 && demand ? "the depot" : `stop ${node}`);
  }

  toggle() {
    if (this.timer || !this.steps.length) return this.stop();
    if (this.at === this.steps.length) this.go(0);
    this.timer = setInterval(() => this.go(this.at + 1), PACE);
    this.showPlaying(true);
    return undefined;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.showPlaying(false);
  }

  // Screen readers say each step, but not while it plays.
  showPlaying(playing) {
    this.parent.querySelector(".play").textContent = playing ? "Pause" : "Play";
    this.parent.querySelector(".where").setAttribute("aria-live", playing ? "off" : "polite");
  }

  close() {
    this.closed = true;
    this.stop();
    this.plan.setReplay(null);
  }
}

// Candidates by falling probability, with both scores as shares of the range of all: only differences matter to softmax.
function withShares(candidates) {
  const scores = candidates.flatMap((move) => [move.global, move.local]);
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const share = (score) => 0.06 + (0.94 * (score - low)) / (high - low || 1);
  return candidates
    .map((move) => ({ ...move, globalShare: share(move.global), localShare: share(move.local) }))
    .sort((a, b) => b.global + b.local - a.global - a.local);
}

function scoreRow(move, chosen) {
  const row = element("tr", chosen ? "chosen" : "");
  row.append(element("th", "", `${move.node}`), scoreCell("global", move.global, move.globalShare));
  row.append(scoreCell("local", move.local, move.localShare), element("td", "", `${(100 * move.probability).toFixed(1)} %`));
  row.firstElementChild.scope = "row";
  return row;
}

function scoreCell(kind, score, share) {
  const cell = element("td", kind);
  const bar = element("i");
  bar.style.width = `${100 * share}%`;
  cell.append(bar, element("span", "", score.toFixed(2)));
  return cell;
}
