// Binding and unbinding, from either end.

import { at, post, remove } from "../api.js";
import { exchangeName } from "../format.js";
import { ask, confirm, objectIn } from "../parts/dialog.js";
import { attempt, tell } from "../parts/notice.js";

// What is known is given: {vhost, source} or {vhost, destination, kind}; the form asks for the rest.
export function bind({ vhost, source, destination, kind }) {
  const fields = [
    { name: "source", label: "From the exchange", value: source, required: true },
    {
      name: "kind",
      label: "To a",
      options: [
        ["q", "queue"],
        ["e", "exchange"],
      ],
      value: kind ?? "q",
    },
    { name: "destination", label: "Named", value: destination, required: true },
    { name: "key", label: "Routing key", hint: "For a topic exchange * stands for one word and # for any number." },
    {
      name: "arguments",
      label: "Arguments",
      rows: 2,
      hint: 'For a headers exchange, such as {"x-match": "all", "kind": "invoice"}',
    },
  ];
  const submit = async (values) => {
    const body = { routing_key: values.key, arguments: objectIn(values.arguments, "Arguments") };
    await post(pathOf(vhost, values.source, values.kind, values.destination), body);
    tell(`${values.source} now leads to ${values.destination}.`);
  };
  return ask({ title: "Add a binding", fields, action: "Bind", submit });
}

export async function unbind({
  vhost,
  source,
  destination,
  destination_type: type,
  routing_key: key,
  properties_key: props,
}) {
  const facts = [
    `Messages with the key “${key}” no longer take this way from ${exchangeName(source)} to ${destination}.`,
  ];
  const isSure = await confirm({ title: "Remove this binding?", facts, action: "Unbind" });
  const path = `${pathOf(vhost, source, type === "queue" ? "q" : "e", destination)}/${encodeURIComponent(props)}`;
  return isSure && attempt(() => remove(path), "The binding was removed.");
}

function pathOf(vhost, source, kind, destination) {
  return at("bindings", vhost, "e", source, kind, destination);
}
