// <warren-graph>: exchanges, bindings and queues as a picture. Nodes are links to what they show, so Tab walks through
// them; depths change in place, and the picture is drawn anew only when the topology differs.

import { fill, h, setText, svg } from "../dom.js";
import { cut, exchangeName, plural } from "../format.js";
import { layOut, RANK_GAP } from "./layout.js";

const NODE = { width: 158, height: 44 };
const MARGIN = 28;
const MARGIN_FOR_WAYS_BACK = 60;
const NAME_LENGTH = 18;
const NOTE_LENGTH = 24;
const KEY_LENGTH = 13;
const LANE = 22;
const SCALE_MIN = 0.7;

class TopologyGraph extends HTMLElement {
  connectedCallback() {
    this.setAttribute("tabindex", "0");
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", "Topology: exchanges, bindings and queues");
  }

  // nodes: [{id, kind: "exchange" | "queue" | "missing", name, note, href}], edges: [{from, to, kind, keys}]
  show({ nodes, edges }) {
    const sign = JSON.stringify([
      nodes.map(({ id, kind, name }) => [id, kind, name]),
      edges.map(({ from, to, kind, keys }) => [from, to, kind, keys]),
    ]);
    if (sign !== this.sign) {
      this.sign = sign;
      this.draw(nodes, edges);
    }
    for (const node of nodes) setText(this.notes.get(node.id), cut(node.note, NOTE_LENGTH));
  }

  draw(nodes, edges) {
    this.notes = new Map();
    const placed = nodes.map((node) => ({ ...node, ...NODE }));
    const lines = edges.map((edge) => ({ ...edge }));
    const { width, height } = layOut(placed, lines);
    const byId = new Map(placed.map((node) => [node.id, node]));
    const back = lines.filter((line) => line.isBack);
    // Lines that lead back run below everything, each in a lane of its own.
    back.forEach((line, index) => Object.assign(line, { lane: height + LANE * (index + 1), index }));
    const deepest = height + LANE * back.length;
    const margin = back.length > 0 ? MARGIN_FOR_WAYS_BACK : MARGIN;
    const [wide, high] = [width + 2 * margin, deepest + 2 * MARGIN];
    const box = `${-margin} ${-MARGIN} ${wide} ${high}`;
    const drawn = [
      markers(),
      svg(
        "g",
        { class: "lines", "aria-hidden": "true" },
        lines.map((line) => this.line(line, byId)),
      ),
      svg(
        "g",
        null,
        placed.map((node) => this.node(node)),
      ),
    ];
    const picture = svg("svg", { viewBox: box, width: wide, height: high }, drawn);
    // A little smaller if it fits then; beyond that one scrolls.
    picture.style.maxWidth = `${wide}px`;
    picture.style.setProperty("--least", `${wide * SCALE_MIN}px`);
    fill(this, this.sizer(), picture);
  }

  // On a phone the whole picture fits at first, and is large enough to be read when asked for.
  sizer() {
    const sizer = h("button", { type: "button", class: "quiet sizer", "aria-pressed": "false" }, "Larger");
    sizer.onclick = () => {
      const isLarge = this.classList.toggle("large");
      sizer.setAttribute("aria-pressed", String(isLarge));
      setText(sizer, isLarge ? "Fit" : "Larger");
    };
    return sizer;
  }

  node(node) {
    const { x, y, width, height } = node;
    const note = svg("text", { class: "note", x: 14, y: 34 });
    this.notes.set(node.id, note);
    const radius = node.kind.startsWith("queue") ? 7 : height / 2;
    const name = svg("text", { x: 14, y: 19 }, cut(exchangeName(node.name), NAME_LENGTH));
    // The whole name for the pointer to find; a screen reader reads the texts of the node.
    const shape = svg("rect", { width, height, rx: radius }, svg("title", null, exchangeName(node.name)));
    const content = [shape, name, note];
    const place = { class: `node ${node.kind}`, transform: `translate(${x} ${y})` };
    if (node.href === null) return svg("g", place, content);
    return svg("a", { ...place, href: node.href }, content);
  }

  line(line, byId) {
    const [from, to] = [byId.get(line.from), byId.get(line.to)];
    const path = line.isBack ? backPath(from, to, line) : forwardPath(from, to, line.points);
    const drawn = svg("path", { d: path.d, "marker-end": `url(#arrow-${line.kind})` });
    const keys = line.keys.filter((key) => key !== "");
    const text = keys.length === 1 ? cut(keys[0], KEY_LENGTH) : keys.length > 1 ? plural(keys.length, "key") : "";
    const label = text === "" ? null : svg("text", { x: path.label[0], y: path.label[1], class: "key" }, text);
    return svg("g", { class: `line ${line.kind}` }, svg("title", null, titleOf(line)), drawn, label);
  }
}

function titleOf({ kind, keys }) {
  const words = {
    binding: "binding",
    dead: "dead letters",
    alternate: "what is not routed",
    met: "matched",
    missed: "did not match",
  };
  return keys.some((key) => key !== "") ? `${words[kind]}: ${keys.slice(0, 20).join(", ")}` : words[kind];
}

function forwardPath(from, to, points) {
  const start = [from.x + from.width, from.y + from.height / 2];
  const end = [to.x - 3, to.y + to.height / 2];
  const all = [start, ...points, end];
  let d = `M${start}`;
  for (let index = 1; index < all.length; index += 1) {
    const [[x1, y1], [x2, y2]] = [all[index - 1], all[index]];
    const middle = (x1 + x2) / 2;
    d += `C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
  }
  // At the end that is less crowded, near the target: where many lines leave one exchange they would cover each other.
  const [before, last] = [all.at(-2), all.at(-1)];
  return { d, label: [before[0] + (last[0] - before[0]) * 0.56, before[1] + (last[1] - before[1]) * 0.72 - 5] };
}

// Out at the right, down between the ranks, along its lane, up between the ranks, in at the left.
function backPath(from, to, { lane, index }) {
  const aside = RANK_GAP / 4 + (index % 6) * 4;
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2 + 8];
  const [x2, y2] = [to.x - 3, to.y + to.height / 2 + 8];
  const [right, left] = [x1 + aside, x2 - aside];
  const d = `M${x1},${y1}Q${right},${y1} ${right},${y1 + 12}V${lane - 12}Q${right},${lane} ${right - 12},${lane}H${left + 12}Q${left},${lane} ${left},${lane - 12}V${y2 + 12}Q${left},${y2} ${x2},${y2}`;
  return { d, label: [(left + right) / 2, lane + 4] };
}

function markers() {
  const one = (kind) =>
    svg(
      "marker",
      {
        id: `arrow-${kind}`,
        class: `arrow ${kind}`,
        viewBox: "0 0 8 8",
        refX: 6,
        refY: 4,
        markerWidth: 7,
        markerHeight: 7,
        orient: "auto-start-reverse",
      },
      svg("path", { d: "M0 0L8 4L0 8z" }),
    );
  return svg("defs", null, ["binding", "dead", "alternate", "met", "missed"].map(one));
}

customElements.define("warren-graph", TopologyGraph);

export function legend() {
  const entry = (kind, text) => h("li", null, h("i", { class: `key line-${kind}` }), h("span", null, text));
  return h(
    "ul",
    { class: "legend" },
    entry("binding", "binding"),
    entry("dead", "dead letters"),
    entry("alternate", "alternate exchange"),
  );
}
