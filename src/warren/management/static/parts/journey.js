// <warren-journey>: one message on its way through the broker: each stage as a station with its time, and the part
// from exchange to queues as a picture.

import { fill, h } from "../dom.js";
import { bytes, exchangeKind, exchangeName, milliseconds, moment } from "../format.js";
import "./graph.js";
import { badge, facts } from "./view.js";

// What a stage is called on the page, where its own name is not enough.
const TITLES = {
  reader: "Read from the socket",
  interceptor: "Interceptors",
  size: "Size checked",
  permission: "Permission checked",
  "topic permission": "Topic permission checked",
  exchange: "Exchange found",
  properties: "Properties read",
  "user id": "User id checked",
  route: "Routed",
  queue: "Into a queue",
  transaction: "Transaction",
  store: "Stored",
  answer: "Answered",
  confirm: "Confirm",
  refused: "Refused",
};
const OUTCOMES = {
  routed: "good",
  scheduled: "good",
  "would be routed": "good",
  "would be scheduled": "good",
  returned: "warn",
  dropped: "warn",
  "rolled back": "warn",
  "never committed": "warn",
  refused: "bad",
};

export function outcome(journey) {
  return badge(journey.outcome || "under way", OUTCOMES[journey.outcome] ?? "");
}

// In milliseconds, from the first stage to the last.
export function timeOf({ stages }) {
  return stages.length === 0 ? 0 : stages.at(-1).microseconds / 1000;
}

class JourneyPicture extends HTMLElement {
  show(journey) {
    const whole = Math.max(timeOf(journey), 0.001);
    const stations = journey.stages.map((stage, index) => station(journey, stage, journey.stages[index - 1], whole));
    const kind = isRehearsal(journey) ? "stations timeless" : "stations";
    fill(this, summary(journey), h("ol", { class: kind }, stations));
  }
}

customElements.define("warren-journey", JourneyPicture);

// "Where would it go?" is answered with a journey that nobody made: it has no number and took no time.
const isRehearsal = (journey) => journey.id === 0;

function summary(journey) {
  if (isRehearsal(journey))
    return facts([
      ["Outcome", outcome(journey)],
      ["Reaches", journey.queues.join(", ") || "no queue"],
    ]);
  return facts([
    ["Published", `${exchangeName(journey.exchange)} → ${journey.routing_key}`],
    ["Outcome", outcome(journey)],
    ["Reached", journey.queues.length > 0 ? journey.queues.join(", ") : "no queue"],
    ["When", moment(journey.began_at)],
    ["Took", milliseconds(timeOf(journey))],
    ["Body", bytes(journey.payload_bytes)],
    ["By", journey.connection === "" ? journey.user : `${journey.user} over ${journey.connection}`],
    ...(journey.message_id ? [["Message id", journey.message_id]] : []),
  ]);
}

// A stage is noted when it is done: it lasted since the one before.
function station(journey, stage, before, whole) {
  const [began, done] = [before?.microseconds ?? 0, stage.microseconds].map((time) => time / 1000);
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("i"));
  bar.firstChild.style.left = `${Math.min((began / whole) * 100, 98)}%`;
  bar.firstChild.style.width = `${Math.max(((done - began) / whole) * 100, 1)}%`;
  const time = h("span", { class: "time" }, `+${milliseconds(done)}`);
  const title = h("h3", null, TITLES[stage.stage] ?? stage.stage);
  const steps = stage.steps?.length > 0 ? route(journey, stage.steps) : null;
  return h(
    "li",
    { class: `station ${OUTCOMES[stage.stage] ?? ""}` },
    time,
    h("div", null, title, h("p", null, stage.text), steps),
    bar,
  );
}

function route(journey, steps) {
  const graph = document.createElement("warren-graph");
  graph.show(pictureOf(journey, steps));
  graph.setAttribute("aria-label", "From the exchange to the queues");
  return [graph, h("ul", { class: "reasons" }, steps.flatMap(reasons))];
}

function reasons(step) {
  const name = exchangeName(step.exchange);
  const way = (match, mark) => h("li", { class: mark }, `${name} → ${match.destination}: ${match.why}`);
  return [
    ...step.matched.map((match) => way(match, "met")),
    ...step.missed.map((match) => way(match, "missed")),
    ...step.notes.map((note) => h("li", null, `${name}: ${note}`)),
  ];
}

// Matched bindings as lines, those that did not match as faint ones; queues reached are marked.
function pictureOf(journey, steps) {
  const nodes = new Map();
  const edges = [];
  const add = (id, node) => nodes.has(id) || nodes.set(id, { id, href: null, ...node });
  for (const step of steps)
    add(`e:${step.exchange}`, { kind: "exchange", name: step.exchange, note: exchangeKind(step.type) });
  for (const step of steps) {
    const reached = new Set(step.matched.map((match) => match.destination));
    // A binding that did not match says nothing where another one did.
    const missed = step.missed.filter((match) => !reached.has(match.destination));
    const ways = [...step.matched.map((match) => [match, "met"]), ...missed.map((match) => [match, "missed"])];
    for (const [match, kind] of ways) {
      const to = `${match.destination_type === "queue" ? "q" : "e"}:${match.destination}`;
      add(to, { kind: match.destination_type, name: match.destination, note: match.destination_type });
      edges.push({ from: `e:${step.exchange}`, to, kind, keys: [match.routing_key] });
    }
    // The default exchange has no bindings that anybody made: the key names the queue.
    if (step.exchange === "") {
      for (const queue of journey.queues) {
        add(`q:${queue}`, { kind: "queue", name: queue, note: "" });
        edges.push({ from: "e:", to: `q:${queue}`, kind: "met", keys: [queue] });
      }
    }
  }
  for (const queue of journey.queues) {
    add(`q:${queue}`, { kind: "queue", name: queue, note: "" });
    nodes.get(`q:${queue}`).kind = "queue reached";
    nodes.get(`q:${queue}`).note = isRehearsal(journey) ? "would receive it" : "received it";
  }
  return { nodes: [...nodes.values()], edges };
}

export function journeyPicture(journey) {
  const picture = document.createElement("warren-journey");
  picture.show(journey);
  return picture;
}
