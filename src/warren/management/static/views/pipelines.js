// #/pipelines: what runs on Spark beside the broker: the state of each pipeline, how fast it goes, how far behind it is.
// Runners say all this of themselves, so every value is looked at before it is believed.

import { get } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { compact, duration, milliseconds, moment, number, plain } from "../format.js";
import { Series } from "../history.js";
import { chart } from "../parts/chart.js";
import "../parts/graph.js";
import { table } from "../parts/table.js";
import { badge, empty, facts, heading, live } from "../parts/view.js";
import { listOf } from "../session.js";

const STATES = { running: "good", finished: "good", starting: "warn", lost: "bad", failed: "bad" };
const CHART_SECONDS = 300;

export function pipelinesView() {
  const nothing = empty(
    "There are no pipelines. A pipeline reads a queue, a stream or a table, works on it with SQL on Spark, and writes " +
      "to an exchange or a table. It is one file, and started with",
    h("p", null, h("code", null, "warren pipeline run FILE")),
  );
  const list = h("div", { class: "pipelines" });
  const cards = new Map();
  const show = (answer) => {
    const items = listIn(answer);
    const shown = items.map((status) => cardOf(cards, status));
    if (shown.some((element, index) => list.children[index] !== element) || list.children.length !== shown.length) {
      fill(list, shown);
    }
    nothing.hidden = items.length > 0;
  };
  const load = (signal) => get(listOf("pipelines"), signal);
  return live({ load, show, children: [heading("Pipelines"), list, nothing] });
}

function cardOf(cards, status) {
  const key = JSON.stringify([status.vhost, status.name]);
  if (!cards.has(key)) cards.set(key, new Card(status.name));
  cards.get(key).show(status);
  return cards.get(key).element;
}

class Card {
  constructor(name) {
    this.state = h("span");
    this.words = h("p", { class: "problem", role: "alert", hidden: true });
    this.values = ["Rows a second", "Lag", "Rows", "Queries"].map((label) => [label, h("b")]);
    this.facts = h("div");
    this.graph = h("warren-graph", { hidden: true });
    this.series = new Series(["rate", "lag"]);
    this.charts = charts();
    this.queries = table({ caption: `Queries of ${name}`, key: (query) => plain(query.name), columns: columns() });
    const tiles = this.values.map(([label, value]) => h("div", { class: "tile" }, h("span", null, label), value));
    this.element = h(
      "section",
      { "aria-label": `Pipeline ${name}` },
      h("div", { class: "heading" }, h("h2", null, name), this.state),
      this.words,
      h("div", { class: "tiles four" }, tiles),
      h(
        "div",
        { class: "charts" },
        this.charts.map((each) => h("div", { class: "card" }, each)),
      ),
      this.graph,
      this.queries,
      this.facts,
    );
  }

  show(status) {
    const queries = listIn(status.queries);
    fill(this.state, badge(plain(status.state), STATES[status.state] ?? ""));
    this.words.hidden = !status.error;
    setText(this.words, status.error ? plain(status.error) : "");
    const shown = [number(status.rows_per_second), number(status.lag), compact(status.rows), number(queries.length)];
    shown.forEach((text, index) => setText(this.values[index][1], text));
    this.queries.show(queries);
    this.queries.hidden = queries.length === 0;
    this.draw(status.graph);
    this.plot(status);
    fill(this.facts, factsOf(status));
  }

  plot({ rows_per_second: rate, lag, reported_at: at }) {
    // A report is heard of several times until the next one comes.
    if (at === this.plotted) return;
    this.plotted = at;
    this.series.add(at / 1000, { rate: numberIn(rate), lag: numberIn(lag) });
    for (const each of this.charts) each.show(this.series);
  }

  draw(graph) {
    const nodes = listIn(graph?.nodes).filter((node) => typeof node.id === "string");
    const ids = new Set(nodes.map((node) => node.id));
    const edges = listIn(graph?.edges).filter((edge) => Array.isArray(edge) && ids.has(edge[0]) && ids.has(edge[1]));
    this.graph.hidden = nodes.length === 0;
    if (nodes.length === 0) return;
    const kinds = { source: "queue", view: "view", sink: "exchange" };
    this.graph.show({
      nodes: nodes.map(({ id, kind, name, what }) => ({
        id,
        kind: kinds[kind] ?? "view",
        name: plain(name),
        note: plain(what ?? ""),
        href: null,
      })),
      edges: edges.map(([from, to]) => ({ from, to, kind: "binding", keys: [] })),
    });
    this.graph.setAttribute("aria-label", "From sources over views to sinks");
  }
}

const listIn = (value) =>
  Array.isArray(value) ? value.filter((each) => each !== null && typeof each === "object") : [];
const numberIn = (value) => (typeof value === "number" ? value : null);

function charts() {
  const one = (title, name, color) =>
    chart({
      title,
      format: compact,
      seconds: CHART_SECONDS,
      minimum: 5,
      lines: [{ name, label: "now", color }],
    });
  return [one("Rows a second", "rate", "--series-2"), one("Lag in rows", "lag", "--series-4")];
}

function columns() {
  return [
    { title: "Query", show: (query) => plain(query.name) },
    {
      title: "State",
      sign: (query) => plain(query.state),
      show: (query) => badge(plain(query.state ?? "unknown"), STATES[query.state] ?? ""),
    },
    { title: "Writes", show: (query) => plain(query.sink ?? "–") },
    { title: "Rows", number: true, show: (query) => number(query.rows) },
    { title: "Rows/s", number: true, show: (query) => number(query.rows_per_second) },
    { title: "Lag", number: true, show: (query) => number(query.lag) },
    { title: "Batch", number: true, show: (query) => number(query.batch) },
    { title: "Took", number: true, show: (query) => milliseconds(query.batch_ms) },
    { title: "Misfits", number: true, show: (query) => number(query.misfits) },
    { title: "Restarts", number: true, show: (query) => number(query.restarts) },
    { title: "Trouble", show: (query) => plain(query.last_error ?? "") },
  ];
}

function factsOf(status) {
  const pairs = [
    ["From", plain(status.source ?? "–")],
    ["To", plain(status.sink ?? "–")],
    ["Runs on", [status.master, status.host].filter(Boolean).map(plain).join(" on ") || "–"],
    ["Last heard of", `${moment(status.reported_at)}, by ${plain(status.user)}`],
  ];
  if (typeof status.started_at === "number")
    pairs.splice(3, 0, ["Up for", duration(status.reported_at - status.started_at)]);
  return facts(pairs);
}
