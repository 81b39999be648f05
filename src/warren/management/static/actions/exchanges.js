// Declaring and deleting exchanges.

import { at, put, remove } from "../api.js";
import { ask, confirm, objectIn } from "../parts/dialog.js";
import { attempt, tell } from "../parts/notice.js";
import { vhostForNew } from "../session.js";
import { vhostOptions } from "./queues.js";

export function declareExchange(types) {
  const fields = [
    { name: "vhost", label: "Virtual host", options: vhostOptions(), value: vhostForNew() },
    { name: "name", label: "Name", required: true },
    { name: "type", label: "Type", options: types.map((type) => [type, type]), value: "direct" },
    { name: "durable", label: "Durable: survives a restart", type: "checkbox", value: true },
    { name: "autoDelete", label: "Auto-delete: goes with its last binding", type: "checkbox" },
    { name: "internal", label: "Internal: reached only from other exchanges", type: "checkbox" },
    { name: "arguments", label: "Arguments", rows: 2, hint: 'JSON, such as {"alternate-exchange": "unrouted"}' },
  ];
  const submit = async (values) => {
    const { type, durable, autoDelete: auto_delete, internal } = values;
    const given = objectIn(values.arguments, "Arguments");
    await put(at("exchanges", values.vhost, values.name), { type, durable, auto_delete, internal, arguments: given });
    tell(`Exchange ${values.name} is there.`);
  };
  return ask({ title: "Declare an exchange", fields, action: "Declare", submit });
}

export async function deleteExchange({ vhost, name }) {
  const facts = ["With it go all its bindings. Whoever publishes to it will have the channel closed."];
  const isSure = await confirm({ title: `Delete the exchange ${name}?`, facts, action: "Delete" });
  return isSure && attempt(() => remove(at("exchanges", vhost, name)), `${name} was deleted.`);
}
