// #/exchanges/<vhost>/<name>: one exchange: what leads to it, where it leads, and publishing to it.

import { bind, unbind } from "../actions/bindings.js";
import { deleteExchange } from "../actions/exchanges.js";
import { publishTo } from "../actions/queues.js";
import { at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { exchangeName, number, rate } from "../format.js";
import { DELAYED, scheduled } from "../parts/scheduled.js";
import { table } from "../parts/table.js";
import { badge, button, empty, facts, heading, link, live, section, table as factsOf } from "../parts/view.js";

const DEFAULT = "amq.default";

export function exchangeView(vhost, name) {
  const path = at("exchanges", vhost, name);
  const isDefault = name === DEFAULT;
  const details = h("div");
  const waiting = h("div");
  const again = () => view.again();
  const out = ways(
    "Leads to",
    ({ destination, destination_type: type }) =>
      link(destination, type === "queue" ? "queues" : "exchanges", vhost, destination),
    again,
  );
  const into = ways(
    "From",
    ({ source }) => (source === "" ? exchangeName(source) : link(source, "exchanges", vhost, source)),
    again,
  );
  const load = (signal) =>
    Promise.all([
      get(path, signal),
      get(`${path}/bindings/source`, signal),
      get(`${path}/bindings/destination`, signal),
    ]);
  const show = ([exchange, leaving, arriving]) => {
    fill(details, describe(exchange));
    if (exchange.type === DELAYED && waiting.childElementCount === 0)
      fill(waiting, section("Waiting for their time", scheduled(vhost, name)));
    out.show(leaving);
    into.show(arriving);
  };
  const actions = [
    button("Publish", () => publishTo(vhost, isDefault ? "" : name, ""), "primary"),
    !isDefault && button("Add a binding", async () => (await bind({ vhost, source: name })) && again()),
    !isDefault &&
      button(
        "Delete",
        async () => (await deleteExchange({ vhost, name })) && (location.hash = "#/exchanges"),
        "danger",
      ),
  ];
  const children = [
    heading(isDefault ? "(default exchange)" : name, actions),
    section("Details", details),
    waiting,
    h("div", { class: "columns" }, section("Where it leads", out.element), section("What leads here", into.element)),
  ];
  const view = live({ load, show, children });
  return view;
}

function describe(exchange) {
  const stats = exchange.message_stats ?? {};
  const pairs = [
    ["Virtual host", exchange.vhost],
    ["Type", badge(exchange.type, "kind")],
    ["Durable", exchange.durable ? "yes" : "no"],
    ["Internal", exchange.internal ? "yes" : "no"],
    ["Auto-delete", exchange.auto_delete ? "yes" : "no"],
    ["Policy", exchange.policy ?? "none"],
    ["Published in", `${number(stats.publish_in ?? 0)}, ${rate(stats.publish_in_details?.rate ?? 0)}`],
    ["Routed out", `${number(stats.publish_out ?? 0)}, ${rate(stats.publish_out_details?.rate ?? 0)}`],
  ];
  const given =
    Object.keys(exchange.arguments).length > 0 ? [h("h3", null, "Arguments"), factsOf(exchange.arguments)] : [];
  return [facts(pairs), ...given];
}

function ways(title, show, again) {
  const nothing = empty("None.");
  const shown = table({
    caption: title,
    key: (binding) =>
      JSON.stringify([binding.source, binding.destination_type, binding.destination, binding.properties_key]),
    columns: [
      { title, once: true, show },
      { title: "Key", show: (binding) => binding.routing_key },
      { title: "Arguments", show: ({ arguments: given }) => (Object.keys(given).length ? JSON.stringify(given) : "") },
      {
        title: "",
        once: true,
        show: (binding) =>
          binding.source === "" ? "" : button("Unbind", async () => (await unbind(binding)) && again(), "quiet"),
      },
    ],
  });
  const update = (items) => {
    shown.show(items);
    shown.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  };
  return { element: h("div", null, shown, nothing), show: update };
}
