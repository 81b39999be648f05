// Looking at the messages of a queue, and taking them elsewhere: peek, search, move, send back, delete.

import { at, get, post, remove, withQuery } from "../api.js";
import { number, plural } from "../format.js";
import { ask, confirm } from "../parts/dialog.js";
import { attempt, tell } from "../parts/notice.js";

// What one request of a move may take; more is done in several.
const MOVED_AT_ONCE = 10000;

// {messages, next, scanned}: nothing is taken. `after` is the `next` of the answer before.
export function peek({ vhost, name }, query, signal) {
  return get(withQuery(`${at("queues", vhost, name)}/messages`, query), signal);
}

export async function deleteMessage({ vhost, name }, { sequence }) {
  const facts = [`Message ${number(sequence)} of ${name} will be gone for good, and is not dead-lettered.`];
  const isSure = await confirm({ title: "Delete this message?", facts, action: "Delete" });
  return (
    isSure && attempt(() => remove(at("queues", vhost, name, "messages", String(sequence))), "The message was deleted.")
  );
}

const KIND = {
  name: "kind",
  label: "To a",
  options: [
    ["queue", "queue"],
    ["exchange", "exchange"],
  ],
};
const TO = { name: "to", label: "Named", required: true };
const KEY = {
  name: "key",
  label: "Routing key",
  hint: "Only for an exchange; empty keeps the keys that the messages have.",
};

function destination({ kind, to, key }) {
  if (kind === "queue") return { queue: to };
  return key === "" ? { exchange: to } : { exchange: to, routing_key: key };
}

export function moveMessage({ vhost, name }, { sequence }) {
  const submit = async (values) => {
    await post(at("queues", vhost, name, "messages", String(sequence), "move"), destination(values));
    tell(`The message is in ${values.to} now.`);
  };
  return ask({ title: "Move this message", fields: [KIND, TO, KEY], action: "Move", submit });
}

// All that are ready unless the user says fewer, and of those only what the filter takes.
export function moveMessages({ vhost, name, messages_ready: ready = 0 }, filter = {}) {
  const count = {
    name: "count",
    label: "How many, from the oldest",
    type: "number",
    value: ready,
    min: 1,
    required: true,
  };
  const submit = async (values) => {
    const wanted = { ...destination(values), filter };
    const { moved, left } = await inSteps(at("queues", vhost, name, "move"), wanted, values.count);
    tell(`${plural(moved, "message")} moved to ${values.to}.${stayed(left)}`);
  };
  const intro = `Each message is in its new place before it leaves ${name}.`;
  return ask({ title: `Move messages of ${name}`, intro, fields: [KIND, TO, KEY, count], action: "Move", submit });
}

export function redrive({ vhost, name, messages_ready: ready = 0 }) {
  const fields = [
    {
      name: "to",
      label: "Back to",
      options: [
        ["queue", "the queue where each first died"],
        ["exchange", "the exchange it was published to"],
      ],
    },
    { name: "count", label: "How many, from the oldest", type: "number", value: ready, min: 1, required: true },
  ];
  const submit = async ({ to, count }) => {
    const { moved, left } = await inSteps(at("queues", vhost, name, "redrive"), { to }, count);
    tell(`${plural(moved, "message")} sent back.${stayed(left)}`);
  };
  const intro = "Dead letters go back to where they came from, marked with x-redrive-count.";
  return ask({ title: `Send dead letters of ${name} back`, intro, fields, action: "Send back", submit });
}

function stayed(left) {
  return left > 0 ? ` ${number(left)} stayed: nothing would take them.` : "";
}

async function inSteps(path, body, count) {
  const sum = { moved: 0, left: 0 };
  let after = 0;
  while (after !== null && sum.moved + sum.left < count) {
    const step = Math.min(MOVED_AT_ONCE, count - sum.moved - sum.left);
    const { moved, left, next } = await post(path, { ...body, count: step, after });
    sum.moved += moved;
    sum.left += left;
    after = next;
  }
  return sum;
}
