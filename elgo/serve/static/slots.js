// Colour slots of routes: neighbours differ, and a route keeps its colour while the search changes it.

// Returns a slot for each route. before: the slot of each node in the solution shown before, or null.
export function assignSlots(routes, coordinates, before) {
  const slots = new Array(routes.length).fill(-1);
  const taken = new Set();
  if (before) {
    const claims = routes.map((route, index) => claim(route, index, before)).sort((a, b) => b.votes - a.votes);
    for (const { index, slot } of claims) {
      if (slot >= 0 && !taken.has(slot)) taken.add((slots[index] = slot));
    }
  }
  let free = 0;
  for (const index of byAngle(routes, coordinates)) {
    if (slots[index] >= 0) continue;
    while (taken.has(free)) free += 1;
    taken.add((slots[index] = free));
  }
  return slots;
}

// The slot that most nodes of the route had.
function claim(route, index, before) {
  const votes = new Map();
  for (const node of route) votes.set(before[node], (votes.get(before[node]) ?? 0) + 1);
  votes.delete(undefined);
  const [slot, most] = [...votes].reduce((a, b) => (b[1] > a[1] ? b : a), [-1, 0]);
  return { index, slot, votes: most };
}

// Indices of the routes, in the order of their middle's angle around the depot.
function byAngle(routes, coordinates) {
  const order = routes.map((_, index) => index);
  if (!coordinates || routes.length < 2) return order;
  const [x, y] = coordinates[0];
  const angles = routes.map((route) => {
    const sum = (axis) => route.reduce((total, node) => total + coordinates[node][axis], 0) / route.length;
    return Math.atan2(sum(1) - y, sum(0) - x);
  });
  return order.sort((a, b) => angles[a] - angles[b]);
}

// The slot of each node, for the next solution.
export function nodeSlots(routes, slots, nodes) {
  const of = new Array(nodes);
  routes.forEach((route, index) => route.forEach((node) => (of[node] = slots[index])));
  return of;
}
