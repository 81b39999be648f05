// Where the nodes of a directed graph go: in ranks from left to right, in each rank in an order with few crossings.
// Pure figures, no drawing. The method is Sugiyama's: break cycles, rank, order, place.

export const RANK_GAP = 84;
const NODE_GAP = 18;
const SWEEPS = 8;

// nodes: [{id, width, height}], edges: [{from, to}] between ids. Adds x and y (of the left upper corner) to nodes, and
// `points` (what the line passes through between its ends) or `isBack` to edges. Returns {width, height}.
export function layOut(nodes, edges) {
  const graph = new Graph(nodes, edges);
  graph.breakCycles();
  graph.rank();
  graph.splitLongEdges();
  graph.order();
  return graph.place();
}

class Graph {
  constructor(nodes, edges) {
    this.nodes = nodes.map((node) => ({ node, width: node.width, height: node.height, out: [], into: [], rank: 0 }));
    const byId = new Map(this.nodes.map((each) => [each.node.id, each]));
    this.links = edges.map((edge) => ({ edge, from: byId.get(edge.from), to: byId.get(edge.to), via: [] }));
  }

  // A link that leads back to where a walk came from is set aside; the rest has no cycles.
  breakCycles() {
    const leaving = new Map(this.nodes.map((node) => [node, []]));
    for (const link of this.links) leaving.get(link.from).push(link);
    const isArrived = new Set(this.links.map((link) => link.to));
    const state = new Map();
    const starts = [...this.nodes.filter((node) => !isArrived.has(node)), ...this.nodes];
    for (const start of starts) this.walk(start, leaving, state);
    for (const link of this.links) if (!link.edge.isBack) this.join(link.from, link.to);
  }

  walk(start, leaving, state) {
    if (state.has(start)) return;
    state.set(start, "open");
    // Not by calling itself: a chain of a thousand exchanges would end the stack.
    const stack = [[start, 0]];
    while (stack.length > 0) {
      const top = stack.at(-1);
      const link = leaving.get(top[0])[top[1]];
      top[1] += 1;
      if (link === undefined) {
        state.set(top[0], "done");
        stack.pop();
      } else if (state.get(link.to) === "open") link.edge.isBack = true;
      else {
        link.edge.isBack = false;
        if (state.has(link.to)) continue;
        state.set(link.to, "open");
        stack.push([link.to, 0]);
      }
    }
  }

  join(from, to) {
    from.out.push(to);
    to.into.push(from);
  }

  rank() {
    const waiting = new Map(this.nodes.map((node) => [node, node.into.length]));
    const ready = this.nodes.filter((node) => node.into.length === 0);
    for (let node; (node = ready.shift()) !== undefined;) {
      for (const next of node.out) {
        next.rank = Math.max(next.rank, node.rank + 1);
        waiting.set(next, waiting.get(next) - 1);
        if (waiting.get(next) === 0) ready.push(next);
      }
    }
    // What nothing leads to stands right before what it leads to, not at the far left.
    for (const node of this.nodes) {
      if (node.into.length === 0 && node.out.length > 0) node.rank = Math.min(...node.out.map((next) => next.rank)) - 1;
    }
  }

  splitLongEdges() {
    for (const link of this.links) {
      if (link.edge.isBack || link.to.rank - link.from.rank <= 1) continue;
      link.from.out.splice(link.from.out.indexOf(link.to), 1);
      link.to.into.splice(link.to.into.indexOf(link.from), 1);
      let last = link.from;
      for (let rank = link.from.rank + 1; rank < link.to.rank; rank += 1) {
        const bend = { node: null, width: 0, height: 4, out: [], into: [], rank };
        this.nodes.push(bend);
        link.via.push(bend);
        this.join(last, bend);
        last = bend;
      }
      this.join(last, link.to);
    }
  }

  order() {
    this.ranks = [];
    for (const node of this.nodes) (this.ranks[node.rank] ??= []).push(node);
    this.ranks = this.ranks.filter(Boolean);
    for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
      const isForth = sweep % 2 === 0;
      for (const rank of isForth ? this.ranks : this.ranks.toReversed()) this.orderRank(rank, isForth ? "into" : "out");
    }
    this.number();
  }

  number() {
    for (const rank of this.ranks) rank.forEach((node, index) => (node.index = index));
  }

  // By the mean place of the neighbours; those without any stay where they are.
  orderRank(rank, side) {
    this.number();
    for (const node of rank) node.wish = node[side].length ? mean(node[side].map((each) => each.index)) : node.index;
    rank.sort((one, other) => one.wish - other.wish || one.index - other.index);
  }

  place() {
    let x = 0;
    for (const rank of this.ranks) {
      const width = Math.max(...rank.map((node) => node.width));
      for (const node of rank) node.x = x + (width - node.width) / 2;
      x += width + RANK_GAP;
      this.stack(
        rank,
        rank.map(() => 0),
      );
    }
    for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
      for (const rank of sweep % 2 ? this.ranks.toReversed() : this.ranks) this.stack(rank, rank.map(wishedY));
    }
    return this.finish(x - RANK_GAP);
  }

  // As near to the wishes as the distances between nodes permit: from above and from below, and the mean of both.
  stack(rank, wishes) {
    const down = [];
    const up = [];
    rank.forEach((node, index) => {
      const floor = index === 0 ? -Infinity : down[index - 1] + rank[index - 1].height + NODE_GAP;
      down[index] = Math.max(wishes[index], floor);
    });
    for (let index = rank.length - 1; index >= 0; index -= 1) {
      const ceiling = index === rank.length - 1 ? Infinity : up[index + 1] - rank[index].height - NODE_GAP;
      up[index] = Math.min(wishes[index], ceiling);
    }
    rank.forEach((node, index) => (node.y = (down[index] + up[index]) / 2));
  }

  finish(width) {
    const top = Math.min(0, ...this.nodes.map((node) => node.y));
    for (const each of this.nodes) {
      each.y -= top;
      if (each.node) Object.assign(each.node, { x: each.x, y: each.y });
    }
    for (const { edge, via } of this.links) edge.points = via.map((bend) => [bend.x, bend.y + bend.height / 2]);
    return { width: Math.max(width, 0), height: Math.max(0, ...this.nodes.map((node) => node.y + node.height)) };
  }
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function wishedY(node) {
  const near = [...node.into, ...node.out];
  return near.length ? mean(near.map((each) => each.y + each.height / 2)) - node.height / 2 : node.y;
}
