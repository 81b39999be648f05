// #/exchanges/<vhost>/<name>: one exchange: what leads to it, where it leads, and publishing to it.

import { bind } from "../actions/bindings.js";
import { deleteExchange } from "../actions/exchanges.js";
import { publishTo } from "../actions/queues.js";
import { at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { number, rate } from "../format.js";
import { bindingTable, sourceOf } from "../parts/bindings.js";
import { DELAYED, scheduled } from "../parts/scheduled.js";
import { badge, button, facts, heading, link, live, section, table as factsOf } from "../parts/view.js";

const DEFAULT = "amq.default";

export function exchangeView(vhost, name) {
  const path = at("exchanges", vhost, name);
  const isDefault = name === DEFAULT;
  const details = h("div");
  const waiting = h("div");
  const again = () => view.again();
  const out = bindingTable({
    caption: "Leads to",
    title: "Leads to",
    none: "None.",
    end: ({ destination, destination_type: type }) =>
      link(destination, type === "queue" ? "queues" : "exchanges", vhost, destination),
    again,
  });
  const into = bindingTable({ caption: "From", title: "From", none: "None.", end: sourceOf, again });
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
