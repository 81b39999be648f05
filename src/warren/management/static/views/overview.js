// #/overview: how is the broker? Figures first, then charts of the last minutes, the nodes of a cluster, the
// busiest queues and the node.

import { get, withQuery } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { bytes, compact, duration, number, plural, rate, shortTime } from "../format.js";
import { history } from "../history.js";
import { DEPTH, TRAFFIC, chart } from "../parts/chart.js";
import { mirrors } from "../parts/mirrors.js";
import { notice } from "../parts/notice.js";
import { empty, facts, heading, link, live, section } from "../parts/view.js";
import { isMonitoring, listOf } from "../session.js";

const WINDOWS = [
  [60, "1 min"],
  [300, "5 min"],
  [600, "10 min"],
];
const BUSIEST = 6;
const MIB = 1024 * 1024;
let seconds = 60;

class Overview extends HTMLElement {
  connectedCallback() {
    this.problem = notice();
    this.tiles = tiles();
    this.charts = charts();
    this.node = h("div");
    this.mirrors = mirrors();
    const top = heading("Overview", this.windowChoice());
    const middle = h(
      "div",
      { class: "charts" },
      this.charts.map((each) => h("div", { class: "card" }, each)),
    );
    const bottom = h("div", { class: "columns" }, busiest(), section("Node", this.node));
    fill(
      this,
      top,
      this.problem,
      h(
        "div",
        { class: "tiles" },
        this.tiles.map((tile) => tile.element),
      ),
      middle,
      this.mirrors.element,
      bottom,
    );
    this.onChange = () => this.show();
    history.addEventListener("change", this.onChange);
    this.show();
  }

  disconnectedCallback() {
    history.removeEventListener("change", this.onChange);
  }

  windowChoice() {
    const choose = (event) => {
      seconds = Number(event.target.value);
      for (const each of this.charts) each.seconds = seconds;
      this.show();
    };
    const options = WINDOWS.map(([value, text]) => h("option", { value, selected: value === seconds }, text));
    return h("label", { class: "inline" }, "Charts show", h("select", { onchange: choose }, options));
  }

  show() {
    if (history.error) this.problem.say(`${history.error.message} What is shown may be old; trying again.`);
    else this.problem.clear();
    if (history.overview === null) return;
    for (const tile of this.tiles) tile.show();
    for (const each of this.charts) each.show(history.series);
    this.mirrors.show(history.nodes);
    fill(this.node, nodeFacts());
  }
}

customElements.define("warren-overview", Overview);

export function overviewView() {
  return document.createElement("warren-overview");
}

function tile(label, value, note, color) {
  const figure = h("b");
  const small = h("small");
  const element = h("div", { class: `tile ${color ?? ""}` }, h("span", null, label), figure, small);
  const show = () => {
    setText(figure, value());
    setText(small, note());
  };
  return { element, show };
}

function tiles() {
  const last = (name) => history.series.last(name);
  const totals = () => history.overview.object_totals;
  const queues = () => history.overview.queue_totals;
  const streams = () => history.overview.stream_totals;
  const stats = () => history.overview.message_stats;
  const traffic = (label, series, total, color) =>
    tile(
      label,
      () => rate(last(series)),
      () => `${compact(stats()[total])} so far`,
      color,
    );
  return [
    traffic("Into queues", "publish", "publish", "series-1"),
    traffic("Delivered", "deliver", "deliver_get", "series-2"),
    traffic("Acknowledged", "ack", "ack", "series-3"),
    tile(
      "Ready",
      () => compact(queues().messages_ready - streams().messages),
      () => `in ${plural(totals().queues - streams().streams, "queue")}`,
      "series-4",
    ),
    tile(
      "Unacked",
      () => compact(queues().messages_unacknowledged),
      () => `with ${plural(totals().consumers, "consumer")}`,
      "series-5",
    ),
    tile(
      "Connections",
      () => compact(totals().connections),
      () => plural(totals().channels, "channel"),
    ),
  ];
}

function charts() {
  const rates = [
    ...TRAFFIC,
    { name: "ack", label: "acked", color: "--series-3" },
    { name: "redeliver", label: "again", color: "--series-5" },
  ];
  const waits = [
    { name: "latency", label: "publish to delivery, sampled", color: "--series-1" },
    { name: "answer", label: "answers of the API", color: "--series-2" },
  ];
  return [
    chart({ title: "Message rates", format: rate, seconds, minimum: 5, lines: rates }),
    chart({ title: "Depth of all queues", format: compact, seconds, minimum: 10, lines: DEPTH }),
    chart({ title: "Latency", format: shortTime, seconds, minimum: 5, lines: waits }),
    chart({
      title: "Memory",
      format: bytes,
      seconds,
      minimum: MIB,
      steps: Array.from({ length: 20 }, (_, power) => MIB * 2 ** power),
      lines: [{ name: "memory", label: "used", color: "--series-3" }],
    }),
  ];
}

function busiest() {
  const list = h("ol", { class: "bars" });
  const nothing = empty("No queue holds or moves messages.");
  const columns = "name,vhost,messages,message_stats.deliver_get_details";
  const load = (signal) =>
    get(
      withQuery(listOf("queues"), { page: 1, page_size: BUSIEST, sort: "messages", sort_reverse: "true", columns }),
      signal,
    );
  const bars = new Map();
  const show = ({ items }) => {
    const most = Math.max(1, ...items.map((queue) => queue.messages));
    nothing.hidden = items.length > 0;
    const shown = items.map((queue) => barOf(bars, queue, most));
    // Only when another queue is among them: what is put in anew loses the focus.
    if (shown.some((element, index) => list.children[index] !== element) || list.children.length !== shown.length) {
      fill(list, shown);
    }
  };
  return section("Deepest queues", live({ load, show, children: [list, nothing] }));
}

function barOf(bars, { name, vhost, messages, message_stats: stats }, most) {
  const key = JSON.stringify([vhost, name]);
  if (!bars.has(key)) bars.set(key, bar(vhost, name));
  const { element, meter, figure, small } = bars.get(key);
  meter.max = most;
  meter.value = messages;
  setText(figure, compact(messages));
  setText(small, `${rate(stats?.deliver_get_details?.rate ?? 0)} out`);
  return element;
}

function bar(vhost, name) {
  const meter = h("meter", { min: 0, "aria-label": `Messages in ${name}` });
  const figure = h("span", { class: "figure" });
  const small = h("small");
  return { element: h("li", null, link(name, "queues", vhost, name), meter, figure, small), meter, figure, small };
}

function nodeFacts() {
  const { overview, node } = history;
  const versions = [
    ["Version", `Warren ${overview.warren_version}`],
    ["Core", overview.core],
    ["Python", overview.python_version],
  ];
  if (!isMonitoring() || node === null)
    return [facts(versions), empty("Memory, disk and uptime are shown to users with the monitoring tag.")];
  const listeners = overview.listeners.map((each) => `${each.protocol} on ${each.ip_address}:${each.port}`);
  return facts([
    ["Node", node.name],
    ...versions,
    ["Up for", duration(node.uptime)],
    [
      "Memory",
      measured(node.mem_used, node.mem_limit, `${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`, "Memory used"),
    ],
    ["Disk free", `${bytes(node.disk_free)}, publishers block below ${bytes(node.disk_free_limit)}`],
    ["Sockets", number(node.sockets_used)],
    ["Listening", listeners.join(", ")],
  ]);
}

function measured(value, most, text, label) {
  const meter =
    most > 0
      ? h("meter", { min: 0, max: most, high: most * 0.85, value: Math.min(value, most), "aria-label": label })
      : null;
  return h("span", { class: "measured" }, text, meter);
}
