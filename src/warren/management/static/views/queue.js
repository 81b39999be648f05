// #/queues/<vhost>/<name>: one queue: its charts, its messages, what leads to it and who takes from it.

import { at, get } from "../api.js";
import { bind } from "../actions/bindings.js";
import { moveMessages, redrive } from "../actions/messages.js";
import { changeArguments, deleteQueue, publishTo, purgeQueue } from "../actions/queues.js";
import { fill, h, setText } from "../dom.js";
import { bytes, compact, number, rate, shortTime } from "../format.js";
import { Growth, Series, waitingTime } from "../history.js";
import { bindingTable, sourceOf } from "../parts/bindings.js";
import { DEPTH, TRAFFIC, chart } from "../parts/chart.js";
import { messageBrowser } from "../parts/messages.js";
import { table } from "../parts/table.js";
import { button, empty, facts, heading, live, section, table as factsOf } from "../parts/view.js";
import { features } from "./queues.js";

export function queueView(vhost, name) {
  const path = at("queues", vhost, name);
  const parts = [figures(), pictures(), details(), bindings(() => view.again()), consumers()];
  const [numbers, charts, argumentsOf, bound, taking] = parts;
  let queue = { vhost, name };
  const show = ([answer, led]) => {
    queue = answer;
    for (const part of [numbers, charts, argumentsOf, taking]) part.show(answer);
    bound.show(led);
  };
  const load = async (signal) => [await get(path, signal), await get(`${path}/bindings`, signal)];
  const again = () => view.again();
  const then = (action) => async () => {
    if (!(await action(queue))) return;
    again();
    browser.refresh();
  };
  const browser = messageBrowser(() => queue, again);
  const actions = [
    button(
      "Publish",
      then(() => publishTo(vhost, "", name)),
      "primary",
    ),
    button(
      "Move",
      then(() => moveMessages(queue, browser.filter())),
    ),
    button("Redrive", then(redrive)),
    button("Purge", then(purgeQueue)),
    button("Delete", async () => (await deleteQueue(queue)) && (location.hash = "#/queues"), "danger"),
  ];
  const messages = section("Messages", browser);
  const addBinding = button(
    "Add a binding",
    async () => (await bind({ vhost, destination: name, kind: "q" })) && again(),
  );
  const sections = [
    messages,
    h(
      "div",
      { class: "columns" },
      section("Bindings", bound.element, addBinding),
      section("Consumers", taking.element),
    ),
    section("Details", argumentsOf.element, button("Change arguments", then(changeArguments))),
  ];
  const children = [heading(name, actions), numbers.element, charts.element, ...sections];
  const view = live({ load, show, children });
  return view;
}

function figures() {
  // A stream keeps its messages, so there none waits to be taken.
  const first = h("span", null, "Ready");
  const labels = [first, "Unacked", "In", "Out", "Consumers", "Bytes"];
  const values = labels.map(() => h("b"));
  const colors = ["series-4", "series-5", "series-1", "series-2", "", ""];
  const element = h(
    "div",
    { class: "tiles" },
    labels.map((label, index) => h("div", { class: `tile ${colors[index]}` }, label === first ? first : h("span", null, label), values[index]),
    ),
  );
  const growth = new Growth();
  const show = (queue) => {
    setText(first, queue.type === "stream" ? "Kept" : "Ready");
    const { publish, deliver_get: deliver } = queue.message_stats;
    const rates = growth.rates(Date.now() / 1000, { publish, deliver });
    const shown = [
      compact(queue.messages_ready),
      compact(queue.messages_unacknowledged),
      rate(rates.publish),
      rate(rates.deliver),
      number(queue.consumers),
      bytes(queue.message_bytes),
    ];
    shown.forEach((text, index) => setText(values[index], text));
  };
  return { element, show };
}

function pictures() {
  const series = new Series(["publish", "deliver", "ack", "ready", "unacked", "wait"]);
  const growth = new Growth();
  const seconds = 120;
  const rates = [...TRAFFIC, { name: "ack", label: "acknowledged", color: "--series-3" }];
  const waits = [{ name: "wait", label: "estimate: depth ÷ rate out", color: "--series-1" }];
  const charts = [
    chart({ title: "Rates", format: rate, seconds, minimum: 5, lines: rates }),
    chart({ title: "Depth", format: compact, seconds, minimum: 10, lines: DEPTH }),
    chart({ title: "Wait in the queue", format: shortTime, seconds, minimum: 5, lines: waits }),
  ];
  const show = (queue) => {
    const now = Date.now() / 1000;
    const stats = queue.message_stats;
    const rates = growth.rates(now, { publish: stats.publish, deliver: stats.deliver_get, ack: stats.ack });
    const levels = { ready: queue.messages_ready, unacked: queue.messages_unacknowledged };
    series.add(now, { ...rates, ...levels, wait: queue.type === "stream" ? null : waitingTime(levels.ready, rates.deliver) });
    for (const each of charts) each.show(series);
  };
  return {
    element: h(
      "div",
      { class: "charts three" },
      charts.map((each) => h("div", { class: "card" }, each)),
    ),
    show,
  };
}

function details() {
  const element = h("div");
  let shown = "";
  const show = (queue) => {
    const sign = JSON.stringify([
      queue.type,
      queue.state,
      queue.policy,
      queue.operator_policy,
      queue.effective_policy_definition,
      queue.arguments,
    ]);
    if (sign === shown) return;
    shown = sign;
    const pairs = [
      ["Virtual host", queue.vhost],
      ["Features", features(queue)],
      ["State", queue.state],
      ["Policy", queue.policy ?? "none"],
      ["Operator policy", queue.operator_policy ?? "none"],
    ];
    fill(
      element,
      facts(pairs),
      h("h3", null, "Arguments"),
      objectOr(queue.arguments, "No arguments."),
      h("h3", null, "What policies set"),
      objectOr(queue.effective_policy_definition ?? {}, "Nothing."),
    );
  };
  return { element, show };
}

function objectOr(object, nothing) {
  return Object.keys(object).length > 0 ? factsOf(object) : h("p", { class: "muted" }, nothing);
}

function bindings(again) {
  return bindingTable({ caption: "Bindings", title: "From", none: "No exchange leads here.", end: sourceOf, again });
}

function consumers() {
  const nothing = empty("Nobody consumes from this queue.");
  const shown = table({
    caption: "Consumers",
    key: (consumer) => JSON.stringify([consumer.channel_details.name, consumer.consumer_tag]),
    columns: [
      { title: "Channel", show: (consumer) => consumer.channel_details.name },
      { title: "Tag", show: (consumer) => consumer.consumer_tag },
      { title: "Acks", show: (consumer) => (consumer.ack_required ? "by hand" : "automatic") },
      { title: "Prefetch", number: true, show: (consumer) => number(consumer.prefetch_count) },
      { title: "Active", show: (consumer) => (consumer.active ? "yes" : "waiting") },
    ],
  });
  const show = ({ consumer_details: items }) => {
    shown.show(items);
    shown.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  };
  return { element: h("div", null, shown, nothing), show };
}
