// #/journey: where would a message go, the latest journeys that were traced, and #/journey/<id>: one of them.

import { at, ask as request, get, post, put, withQuery } from "../api.js";
import { vhostOptions } from "../actions/queues.js";
import { fill, h, setText } from "../dom.js";
import { exchangeName, milliseconds, number, plural, time } from "../format.js";
import { ask, confirm, field, objectIn, valuesOf } from "../parts/dialog.js";
import { journeyPicture, outcome, timeOf } from "../parts/journey.js";
import { attempt, notice, tell } from "../parts/notice.js";
import { table } from "../parts/table.js";
import { button, empty, heading, link, live, section } from "../parts/view.js";
import { isAdministrator, isMonitoring, vhostForNew } from "../session.js";

const SHOWN = 25;

export function journeyView(id) {
  return id === undefined ? allJourneys() : oneJourney(id);
}

function oneJourney(id) {
  const place = h("div");
  let sign = "";
  const show = (journey) => {
    // Drawn anew only when it went on: one waits for the disk, and then is confirmed.
    if (JSON.stringify(journey) === sign) return;
    sign = JSON.stringify(journey);
    fill(place, journeyPicture(journey));
  };
  const back = h("a", { class: "button", href: "#/journey" }, "All journeys");
  const children = [heading(`Journey ${id}`, back), section("Stages", place)];
  return live({ load: (signal) => get(at("traces", id), signal), show, children });
}

function allJourneys() {
  const question = section("Where would it go?", dryRun());
  if (!isMonitoring()) {
    const words = empty("Journeys of messages that were published are shown to users with the monitoring tag.");
    return h("div", null, heading("Journey"), question, section("Latest journeys", words));
  }
  const latest = journeys();
  const then = (action) => async () => (await action()) && latest.again();
  const actions = [
    button("Trace the next", then(traceNext), "primary"),
    button("Sample", then(sample)),
    isAdministrator() && button("Forget all", then(forget)),
  ];
  return h("div", null, heading("Journey", actions), question, section("Latest journeys", latest));
}

function journeys() {
  const nothing = empty(
    "No message was traced yet. Trace the next ones with the button above, or publish with the header x-warren-trace.",
  );
  const words = h("p", { class: "muted", role: "status" });
  const shown = table({ caption: "Journeys", key: (journey) => String(journey.id), columns: columns() });
  const show = ([{ items, total_count: total }, settings]) => {
    shown.show(items);
    shown.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
    setText(words, wordsOf(settings, total));
  };
  const query = { page: 1, page_size: SHOWN };
  const load = (signal) =>
    Promise.all([get(withQuery("/api/traces", query), signal), get("/api/traces/settings", signal)]);
  return live({ load, show, children: [words, shown, nothing] });
}

function wordsOf({ sample_every: every, next, exchange }, total) {
  const words = [total > 0 && `${plural(total, "journey")} kept, newest first.`];
  if (next > 0) words.push(`The next ${plural(next, "message")}${exchange ? ` to ${exchange}` : ""} will be traced.`);
  if (every > 0) words.push(`One in ${number(every)} is traced.`);
  return words.filter(Boolean).join(" ");
}

function columns() {
  return [
    { title: "Message", once: true, show: nameOf },
    { title: "Outcome", sign: (journey) => journey.outcome, show: outcome },
    { title: "Reached", show: ({ queues }) => (queues.length > 0 ? queues.join(", ") : "no queue") },
    { title: "Stages", number: true, show: (journey) => number(journey.stages.length) },
    { title: "Took", number: true, show: (journey) => milliseconds(timeOf(journey)) },
    { title: "At", number: true, show: (journey) => time(journey.began_at) },
  ];
}

function nameOf({ id, exchange, routing_key: key }) {
  return h("div", { class: "name" }, link(`${exchangeName(exchange)} → ${key}`, "journey", String(id)));
}

function dryRun() {
  const fields = [
    { name: "vhost", label: "Virtual host", options: vhostOptions(), value: vhostForNew() },
    { name: "exchange", label: "Exchange", hint: "Empty is the default one." },
    { name: "key", label: "Routing key" },
    { name: "headers", label: "Headers", hint: 'JSON, such as {"a": 1}' },
  ];
  const place = h("div", { "aria-live": "polite" });
  const problem = notice();
  const submit = async (event) => {
    event.preventDefault();
    const { vhost, exchange, key, headers } = valuesOf(form, fields);
    try {
      const body = { vhost, exchange, routing_key: key, headers: objectIn(headers, "Headers") };
      fill(place, journeyPicture(await post("/api/traces/dry-run", body)));
      problem.clear();
    } catch (error) {
      problem.say(error.message);
    }
  };
  const answer = h("button", { type: "submit" }, "Answer");
  const form = h("form", { class: "search", onsubmit: submit }, fields.map(field), answer);
  return [
    h("p", { class: "muted" }, "Nothing is published: the broker says what it would do, and why."),
    form,
    problem,
    place,
  ];
}

function traceNext() {
  const fields = [
    { name: "next", label: "How many messages", type: "number", value: 10, min: 1, max: 10000, required: true },
    { name: "exchange", label: "Published to the exchange", hint: "Empty is any." },
  ];
  const submit = async ({ next, exchange }) => {
    await put("/api/traces/settings", exchange === "" ? { next } : { next, exchange });
    tell(`The next ${plural(next, "message")} will be traced.`);
  };
  return ask({ title: "Trace the next messages", fields, action: "Trace", submit });
}

function sample() {
  const fields = [
    {
      name: "every",
      label: "Trace one message in",
      type: "number",
      value: 1000,
      min: 0,
      required: true,
      hint: "0 is none.",
    },
  ];
  const submit = async ({ every }) => {
    await put("/api/traces/settings", { sample_every: every });
    tell(every === 0 ? "No longer sampled." : `One message in ${number(every)} is traced.`);
  };
  return ask({ title: "Sample messages", fields, action: "Save", submit });
}

async function forget() {
  const isSure = await confirm({
    title: "Forget all journeys?",
    facts: ["The messages stay as they are."],
    action: "Forget",
  });
  return isSure && attempt(() => request("DELETE", "/api/traces"), "All journeys were forgotten.");
}
