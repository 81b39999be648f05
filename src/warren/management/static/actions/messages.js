// Looking at the messages of a queue, and moving them to another.

import { at, post } from "../api.js";
import { ask } from "../parts/dialog.js";

export function peek({ vhost, name }, { count }) {
  return post(`${at("queues", vhost, name)}/get`, { count, ackmode: "ack_requeue_true", encoding: "auto", truncate: 50000 });
}

export function moveMessages({ vhost, name }) {
  const fields = [{ name: "to", label: "To the queue", required: true }];
  const submit = ({ to }) => post(`${at("queues", vhost, name)}/move`, { to });
  return ask({ title: `Move messages of ${name}`, fields, action: "Move", submit });
}
