// Draws a scene of a plan on a canvas: stops, routes, and a step of a construction.

import { colour, ROUTE_COLOURS, routeColours } from "./format.js";

const FAINT = 0.13; // what is not highlighted
const DASHES = [[], [9, 5], [2, 5]]; // of routes beyond the first colours
const MANY = 1500; // stops, above which they are drawn small and plain
const GLYPHS = 6; // candidates whose scores are drawn beside them, the most probable ones, where they have room

// projection: {scale, x, y}; canvas x = x + scale * xs, canvas y = y - scale * ys
export function drawPlan(context, bounds, scene, projection) {
  context.clearRect(bounds.min.x, bounds.min.y, bounds.max.x - bounds.min.x, bounds.max.y - bounds.min.y);
  context.lineJoin = context.lineCap = "round";
  const pen = {
    context, scene, bounds,
    px: (node) => projection.x + projection.scale * scene.xs[node],
    py: (node) => projection.y - projection.scale * scene.ys[node],
    radius: stopRadius(scene.xs.length, projection.scale),
    ink: colour("ink"), surface: colour("plane"), colours: routeColours(),
  };
  if (scene.grid) drawGrid(pen, projection);
  if (scene.replay) drawReplay(pen);
  else drawRoutes(pen);
  drawDepot(pen);
}

// Stops grow a little with the zoom, and shrink with their number.
function stopRadius(count, scale) {
  const base = count <= 150 ? 4 : count <= MANY ? 3 : 1.6;
  return Math.max(1.1, Math.min(6, base * (0.8 + 0.25 * Math.log2(Math.max(1, scale * 1.4)))));
}

function drawGrid({ context }, { scale, x, y }) {
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.beginPath();
  for (let k = 0; k <= 1000; k += 100) {
    context.moveTo(x + k * scale, y);
    context.lineTo(x + k * scale, y - 1000 * scale);
    context.moveTo(x, y - k * scale);
    context.lineTo(x + 1000 * scale, y - k * scale);
  }
  context.stroke();
}

function drawRoutes(pen) {
  const { scene, context } = pen;
  if (!scene.routes.length) return drawStops(pen, scene.xs.keys(), pen.ink);
  const rest = [...scene.routes.keys()].filter((index) => index !== scene.highlight);
  context.globalAlpha = scene.highlight === null ? 1 : FAINT;
  for (const index of rest) drawRoute(pen, index, false);
  context.globalAlpha = 1;
  if (scene.highlight !== null && scene.highlight < scene.routes.length) drawRoute(pen, scene.highlight, true);
  return undefined;
}

function drawRoute(pen, index, strong) {
  const { context, scene } = pen;
  const route = scene.routes[index];
  const alpha = context.globalAlpha;
  context.strokeStyle = pen.colours[scene.slots[index] % ROUTE_COLOURS];
  context.lineWidth = (scene.xs.length > MANY ? 1.3 : 2) + (strong ? 1.5 : 0);
  context.setLineDash(scene.xs.length > MANY ? [] : DASHES[Math.floor(scene.slots[index] / ROUTE_COLOURS) % DASHES.length]);
  line(pen, scene.depot || scene.open ? route : [...route, route[0]]);
  context.setLineDash([]);
  if (scene.depot) {
    context.globalAlpha = alpha * (strong ? 0.8 : scene.xs.length > MANY ? 0.2 : 0.45);
    context.lineWidth = strong ? 1.5 : 1;
    line(pen, [0, route[0]]);
    if (!scene.open) line(pen, [route.at(-1), 0]);
    context.globalAlpha = alpha;
  }
  drawStops(pen, route, context.strokeStyle);
}

function line({ context, px, py }, nodes) {
  context.beginPath();
  for (const node of nodes) context.lineTo(px(node), py(node));
  context.stroke();
}

// Small stops are squares, which are drawn faster; larger ones are circles with a rim.
function drawStops({ context, bounds, px, py, radius, surface, scene }, nodes, fill) {
  context.fillStyle = fill;
  context.beginPath();
  for (const node of nodes) {
    const [x, y] = [px(node), py(node)];
    if (x < bounds.min.x || x > bounds.max.x || y < bounds.min.y || y > bounds.max.y) continue;
    if (scene.xs.length > MANY && radius < 2.5) {
      context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    } else {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
  }
  if (radius >= 2.5) {
    context.strokeStyle = surface;
    context.lineWidth = 2;
    context.stroke();
  }
  context.fill();
}

function drawDepot({ context, scene, px, py, ink, surface }) {
  if (!scene.depot || !scene.xs.length) return;
  context.fillStyle = surface;
  context.strokeStyle = ink;
  context.lineWidth = 2.5;
  context.beginPath();
  context.roundRect(px(0) - 6.5, py(0) - 6.5, 13, 13, 2.5);
  context.fill();
  context.stroke();
}

// A step of the construction: the path so far, the neighbourhood of the local policy, and the scores of the best moves.
function drawReplay(pen) {
  const { context, scene, px, py, ink } = pen;
  const { path, current, chosen, candidates } = scene.replay;
  context.globalAlpha = 0.35;
  drawStops(pen, scene.xs.keys(), colour("muted"));
  context.globalAlpha = 1;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  line(pen, path);
  drawStops(pen, path, ink);
  if (current === null) return;

  const reach = candidates.filter(({ node }) => !(scene.depot && node === 0));
  const radius = Math.max(0, ...reach.map(({ node }) => Math.hypot(px(node) - px(current), py(node) - py(current))));
  context.fillStyle = context.strokeStyle = colour("local");
  context.setLineDash([4, 5]);
  context.lineWidth = 1.2;
  context.beginPath();
  context.arc(px(current), py(current), radius + pen.radius + 4, 0, 2 * Math.PI);
  context.globalAlpha = 0.08;
  context.fill();
  context.globalAlpha = 0.9;
  context.stroke();
  context.setLineDash([]);

  for (const { node, probability } of candidates) {
    context.strokeStyle = colour("accent");
    context.globalAlpha = 0.15 + 0.85 * probability;
    context.lineWidth = 1 + 3 * probability;
    line(pen, [current, node]);
  }
  context.globalAlpha = 1;
  drawStops(pen, candidates.map(({ node }) => node), colour("accent"));
  ring(pen, current, ink, 5);
  ring(pen, chosen, colour("accent"), 4);
  const placed = [];
  for (const candidate of candidates.slice(0, GLYPHS)) {
    const place = [px(candidate.node), py(candidate.node)];
    if (placed.some(([x, y]) => Math.abs(x - place[0]) < 18 && Math.abs(y - place[1]) < 26)) continue;
    placed.push(place);
    drawScores(pen, candidate);
  }
}

function ring({ context, px, py, radius }, node, stroke, gap) {
  context.strokeStyle = stroke;
  context.lineWidth = 2.2;
  context.beginPath();
  context.arc(px(node), py(node), radius + gap, 0, 2 * Math.PI);
  context.stroke();
}

// Two bars beside a candidate: the scores of the global and of the local policy.
function drawScores({ context, px, py, radius, surface }, { node, globalShare, localShare }) {
  const [x, y, height] = [px(node) + radius + 5, py(node) + 9, 20];
  context.fillStyle = surface;
  context.globalAlpha = 0.85;
  context.fillRect(x - 2, y - height - 2, 15, height + 4);
  context.globalAlpha = 1;
  context.fillStyle = colour("global");
  context.fillRect(x, y - height * globalShare, 5, height * globalShare);
  context.fillStyle = colour("local");
  context.fillRect(x + 6, y - height * localShare, 5, height * localShare);
}
