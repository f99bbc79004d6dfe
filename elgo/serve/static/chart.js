// The curve of cost over time, of one run or of two.

import { colour, number, onTheme, percent, seconds, withUnit } from "./format.js";

const HEIGHT = 190;
const AT_ONCE = 0.01; // seconds: where the axis of time begins
const TICKS = [0.01, 0.1, 1, 10, 100, 1000, 10_000];
const DASHES = [[], [8, 4]]; // of the first and the second run

export class CostChart {
  constructor(element, text) {
    this.element = element;
    this.text = text;
    this.runs = [];
    new ResizeObserver(() => this.plot?.setSize({ width: element.clientWidth, height: HEIGHT })).observe(element);
    onTheme(() => this.set(this.runs));
  }

  // runs: [{label, history, until, bestKnown, unit}], until: seconds up to which the last cost is drawn
  set(runs) {
    const key = JSON.stringify(runs.map(({ label, bestKnown }) => [label, bestKnown]));
    const themed = colour("accent");
    this.runs = runs;
    this.text.textContent = describe(runs);
    if (!runs.some((run) => run.history.length)) return this.clear();
    const data = table(runs);
    if (this.key === key + themed) return this.plot.setData(data);
    this.clear();
    this.key = key + themed;
    this.plot = new uPlot(this.options(runs), data, this.element);
    return undefined;
  }

  clear() {
    this.plot?.destroy();
    this.plot = this.key = null;
  }

  options(runs) {
    const strokes = [colour("accent"), colour("local")];
    const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const { bestKnown } = runs[0];
    const gap = { ...axis, side: 1, scale: "cost", size: 60, grid: { show: false } };
    gap.values = (_, ticks) => ticks.map((tick) => percent(100 * (tick / bestKnown - 1)));
    return {
      width: this.element.clientWidth, height: HEIGHT, padding: [8, 28, 0, 0], legend: { show: runs.length > 1, live: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: {
        x: { time: false, distr: 3, range: (_, low, high) => [AT_ONCE, Math.max(0.1, high)] },
        cost: { range: () => this.range() },
      },
      axes: [
        { ...axis, splits: (_plot, _axis, low, high) => TICKS.filter((tick) => tick >= low && tick <= high), values: (_, ticks) => ticks.map(seconds), filter: (_, ticks) => ticks, size: 32 },
        { ...axis, scale: "cost", size: 70, values: (_, ticks) => ticks.map(number) },
        ...(bestKnown ? [gap] : []),
      ],
      series: [
        { label: "time" },
        ...runs.map((run, i) => ({
          label: run.label, scale: "cost", stroke: strokes[i], width: 2.2, dash: DASHES[i],
          paths: uPlot.paths.stepped({ align: 1 }), spanGaps: true,
          points: { show: () => this.runs[i]?.history.length === 1, size: 8, fill: strokes[i] },
        })),
      ],
    };
  }

  // From the best cost to the first one that a construction or a policy found; the fallback's would flatten the rest.
  range() {
    const costs = this.runs.flatMap(({ history }) => constructed(history).map(([, cost]) => cost));
    const known = this.runs[0].bestKnown;
    const low = Math.min(...costs, ...(known ? [known] : []));
    const high = Math.max(...costs);
    const margin = 0.06 * (high - low) || 0.01 * high || 1;
    return [low - margin, high + margin];
  }
}

// The table that uPlot draws: common times, and the cost of each run, held until the run's latest moment.
function table(runs) {
  return uPlot.join(runs.map(({ history, until }) => {
    const points = history.map(([time, cost]) => [Math.max(AT_ONCE, time), cost]);
    if (points.length && until > points.at(-1)[0]) points.push([until, points.at(-1)[1]]);
    const last = new Map(points); // of costs at the same time the last one counts
    return [[...last.keys()], [...last.values()]];
  }), runs.map(() => [2, 2]));
}

// The history without the fallback, unless there is nothing else.
function constructed(history) {
  const found = history.filter(([, , source]) => source !== "fallback");
  return found.length ? found : history;
}

// What the curve shows, in words.
function describe(runs) {
  const lines = runs.filter(({ history }) => history.length).map(({ label, history, unit }) => {
    const [first, last] = [constructed(history)[0], history.at(-1)];
    const better = last[1] < first[1] ? `, ${percent(100 * (1 - last[1] / first[1]))} below the first` : "";
    return `${label}: ${withUnit(last[1], unit)} after ${seconds(last[0])}${better}`;
  });
  return lines.length ? `${lines.join(". ")}.` : "The curve appears with the first solution.";
}
