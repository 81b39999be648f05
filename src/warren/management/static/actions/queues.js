// What can be done to a queue, asked for in dialogs. Each resolves to whether it was done.

import { ask as request, at, get, post, put, remove } from "../api.js";
import { plural } from "../format.js";
import { ask, confirm, objectIn } from "../parts/dialog.js";
import { attempt, tell } from "../parts/notice.js";
import { session, vhostForNew } from "../session.js";

export const vhostOptions = () => session.vhosts.map((name) => [name, name]);

export function declareQueue(type = "classic") {
  const fields = [
    { name: "vhost", label: "Virtual host", options: vhostOptions(), value: vhostForNew() },
    { name: "name", label: "Name", required: true },
    {
      name: "type",
      label: "Type",
      options: [
        ["classic", "classic"],
        ["quorum", "quorum"],
        ["stream", "stream"],
      ],
      value: type,
    },
    { name: "durable", label: "Durable: survives a restart", type: "checkbox", value: true },
    { name: "autoDelete", label: "Auto-delete: goes with its last consumer", type: "checkbox" },
    {
      name: "arguments",
      label: "Arguments",
      rows: 3,
      hint: 'JSON, such as {"x-max-length": 1000, "x-dead-letter-exchange": "dead"}',
    },
  ];
  const submit = async ({ vhost, name, type, durable, autoDelete, arguments: text }) => {
    const given = objectIn(text, "Arguments");
    if (type !== "classic") given["x-queue-type"] = type;
    await put(at("queues", vhost, name), { durable, auto_delete: autoDelete, arguments: given });
    tell(`Queue ${name} is there.`);
  };
  return ask({ title: type === "stream" ? "Declare a stream" : "Declare a queue", fields, action: "Declare", submit });
}

// In place, where that is safe; where it is not, the broker says why and nothing changes.
export function changeArguments({ vhost, name, arguments: now }) {
  const fields = [
    {
      name: "arguments",
      label: "Arguments",
      rows: 8,
      value: JSON.stringify(now, null, 2),
      hint: "All that the queue shall have: what is left out is taken away.",
    },
  ];
  const submit = async ({ arguments: text }) => {
    const { differences } = await request("PATCH", at("queues", vhost, name), {
      arguments: objectIn(text, "Arguments"),
    });
    tell(
      differences.length === 0
        ? "Nothing was different."
        : `Changed: ${differences.map((each) => each.argument).join(", ")}.`,
    );
  };
  return ask({ title: `Arguments of ${name}`, fields, action: "Change", submit });
}

export async function purgeQueue({ vhost, name, messages_ready: ready }) {
  const facts = [
    `${plural(ready ?? 0, "ready message")} will be gone for good. Those delivered and not yet acknowledged stay.`,
  ];
  const isSure = await confirm({ title: `Purge ${name}?`, facts, action: "Purge" });
  return isSure && attempt(() => remove(`${at("queues", vhost, name)}/contents`), `${name} was purged.`);
}

export async function deleteQueue({ vhost, name, messages, consumers }) {
  const facts = [`With it go its bindings and ${plural(messages ?? 0, "message")}.`];
  if (consumers > 0) facts.push(`${plural(consumers, "consumer")} will be cancelled.`);
  const isSure = await confirm({ title: `Delete the queue ${name}?`, facts, action: "Delete" });
  return isSure && attempt(() => remove(at("queues", vhost, name)), `${name} was deleted.`);
}

export function publishTo(vhost, exchange, key) {
  const fields = [
    {
      name: "exchange",
      label: "Exchange",
      value: exchange,
      hint: "Empty is the default exchange, which sends to the queue named by the routing key.",
    },
    { name: "key", label: "Routing key", value: key },
    { name: "payload", label: "Payload", rows: 5 },
    { name: "contentType", label: "Content type", value: "text/plain" },
    { name: "headers", label: "Headers", rows: 2, hint: 'JSON, such as {"tenant": "acme"}' },
    { name: "persistent", label: "Persistent: kept on disk", type: "checkbox", value: true },
    { name: "traced", label: "Show its journey", type: "checkbox" },
  ];
  return ask({ title: "Publish a message", fields, action: "Publish", submit: (values) => publish(vhost, values) });
}

async function publish(vhost, { exchange, key, payload, contentType, headers, persistent, traced }) {
  const given = objectIn(headers, "Headers");
  const properties = {
    delivery_mode: persistent ? 2 : 1,
    headers: traced ? { ...given, "x-warren-trace": true } : given,
  };
  if (contentType !== "") properties.content_type = contentType;
  const body = { properties, routing_key: key, payload, payload_encoding: "string" };
  const { routed } = await post(`${at("exchanges", vhost, exchange || "amq.default")}/publish`, body);
  if (traced) return showLatestJourney();
  if (!routed) throw new Error("It reached no queue: nothing is bound for this routing key. Nothing was kept.");
  tell("Published, and at least one queue has it.");
}

async function showLatestJourney() {
  const { items } = await get("/api/traces?page=1&page_size=1");
  location.hash = `#/journey/${items[0].id}`;
}
