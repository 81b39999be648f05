// #/exchanges: the topology as a picture, and the exchanges as a list.

import { declareExchange, deleteExchange } from "../actions/exchanges.js";
import { publishTo } from "../actions/queues.js";
import { fill, h, newId } from "../dom.js";
import { exchangeName, number, plural, rate } from "../format.js";
import { history } from "../history.js";
import { legend } from "../parts/graph.js";
import { listing } from "../parts/listing.js";
import { menuButton } from "../parts/menu.js";
import { badge, button, heading, live, placed, section } from "../parts/view.js";
import { session, vhostForNew } from "../session.js";
import { loadTopology, topologyOf } from "../topology.js";

export function exchangesView() {
  const list = listing({
    noun: "exchange",
    columns: columns(() => list.again()),
    sort: "name",
  });
  const types = () => history.overview.exchange_types.map((type) => type.name);
  const declare = async () => (await declareExchange(types())) && list.again();
  return h(
    "div",
    null,
    heading("Exchanges", button("Declare an exchange", declare, "primary")),
    section("Topology", topology()),
    section("All exchanges", list),
  );
}

function topology() {
  const vhost = vhostForNew();
  const graph = document.createElement("warren-graph");
  const words = h("p", { class: "muted" });
  const id = newId("filter");
  let filter = "";
  let answer = null;
  const show = (loaded) => {
    answer = loaded;
    const { nodes, edges, left, loose } = topologyOf(loaded, filter);
    graph.hidden = nodes.length === 0;
    if (nodes.length > 0) graph.show({ nodes, edges });
    fill(words, wordsOf(vhost, nodes.length, left, loose, filter));
  };
  const typed = (event) => {
    filter = event.target.value;
    if (answer) show(answer);
  };
  const input = h("input", { id, type: "search", placeholder: "Part of a name", oninput: typed, autocomplete: "off" });
  const toolbar = h(
    "div",
    { class: "toolbar" },
    h("div", { class: "filter" }, h("label", { for: id }, "Draw only"), input),
    legend(),
  );
  return live({ load: (signal) => loadTopology(vhost, signal), show, children: [toolbar, graph, words] });
}

function wordsOf(vhost, drawn, left, loose, filter) {
  const words = [];
  if (drawn === 0)
    words.push(filter === "" ? "Nothing is bound to anything yet." : `Nothing has “${filter}” in its name.`);
  if (session.vhosts.length > 1) words.push(`Drawn is the virtual host ${vhost}; choose another at the top.`);
  if (left > 0) words.push(`${number(left)} more are not drawn; type a part of their name to see them.`);
  if (loose > 0)
    words.push(`${plural(loose, "queue is", "queues are")} reached through the default exchange only, and not drawn.`);
  return words.join(" ");
}

function columns(again) {
  return [
    { title: "Name", sort: "name", once: true, show: nameOf },
    { title: "Type", sort: "type", once: true, show: (exchange) => badge(exchange.type, "kind") },
    { title: "Features", sign: (exchange) => JSON.stringify([exchange.policy]), show: features },
    {
      title: "In",
      number: true,
      sort: "message_stats.publish_in_details.rate",
      show: ({ message_stats: stats }) => rate(stats?.publish_in_details.rate ?? 0),
    },
    {
      title: "Out",
      number: true,
      sort: "message_stats.publish_out_details.rate",
      show: ({ message_stats: stats }) => rate(stats?.publish_out_details.rate ?? 0),
    },
    {
      title: "",
      once: true,
      show: (exchange) => menuButton(`Actions for ${exchangeName(exchange.name)}`, () => actions(exchange, again)),
    },
  ];
}

const nameOf = ({ vhost, name }) => placed(vhost, exchangeName(name), "exchanges", vhost, name || "amq.default");

function features(exchange) {
  const words = [
    exchange.durable && "durable",
    exchange.internal && "internal",
    exchange.auto_delete && "auto-delete",
  ].filter(Boolean);
  const all = words.map((word) => badge(word));
  if (exchange.policy) all.push(badge(exchange.policy, "policy"));
  for (const name of Object.keys(exchange.arguments)) all.push(badge(name));
  return h("div", { class: "badges" }, all);
}

function actions({ vhost, name }, again) {
  const publish = ["Publish a message", () => publishTo(vhost, name, "")];
  if (name === "" || name.startsWith("amq.")) return [publish];
  return [publish, ["Delete", async () => (await deleteExchange({ vhost, name })) && again(), true]];
}
