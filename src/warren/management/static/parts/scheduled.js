// What a delayed exchange holds back: each message with its time, and a way to cancel it.

import { at, get, remove } from "../api.js";
import { h } from "../dom.js";
import { bytes, cut, moment, plural } from "../format.js";
import { confirm } from "./dialog.js";
import { attempt } from "./notice.js";
import { table } from "./table.js";
import { button, empty, live } from "./view.js";

export const DELAYED = "x-delayed-message";
const BODY_SHOWN = 60;

export function scheduled(vhost, name) {
  const path = at("scheduled", vhost, name);
  const nothing = empty("Nothing waits for its time. A message with the header x-delay, in milliseconds, would.");
  const words = h("p", { class: "muted" });
  const cancel = async (message) => (await cancelMessage(path, message)) && view.again();
  const shown = table({
    caption: "Scheduled messages",
    key: (message) => String(message.sequence),
    columns: [
      { title: "Due", show: (message) => moment(message.due_at) },
      { title: "Key", show: (message) => message.routing_key },
      { title: "Body", show: (message) => cut(message.payload, BODY_SHOWN) },
      { title: "Size", number: true, show: (message) => bytes(message.payload_bytes) },
      { title: "", once: true, show: (message) => button("Cancel", () => cancel(message), "quiet") },
    ],
  });
  const show = ({ messages, next }) => {
    shown.show(messages);
    shown.hidden = messages.length === 0;
    nothing.hidden = messages.length > 0;
    words.textContent = next === null ? "" : `The first ${plural(messages.length, "message")}; more wait behind them.`;
  };
  const view = live({ load: (signal) => get(path, signal), show, children: [shown, nothing, words] });
  return view;
}

async function cancelMessage(path, { sequence, due_at: due }) {
  const facts = [`It would have been routed at ${moment(due)}. It will be gone for good.`];
  const isSure = await confirm({ title: "Cancel this message?", facts, action: "Cancel the message" });
  return isSure && attempt(() => remove(`${path}/${sequence}`), "The message was cancelled.");
}
