// #/streams: the queues that keep what they hold, with their offsets and how long they keep it.

import { declareQueue, publishTo } from "../actions/queues.js";
import { withQuery } from "../api.js";
import { h } from "../dom.js";
import { bytes, number, plain, rate } from "../format.js";
import { listing } from "../parts/listing.js";
import { menuButton } from "../parts/menu.js";
import { badge, button, heading } from "../parts/view.js";
import { listOf } from "../session.js";
import { queueName } from "./queues.js";

export function streamsView() {
  const list = listing({
    path: () => withQuery(listOf("queues"), { type: "stream" }),
    noun: "stream",
    columns: columns(),
    sort: "name",
    empty:
      "There are no streams yet. A stream is a queue that keeps its messages, so that many can read it, and again. " +
      "Declare one with the button above, or as a client with x-queue-type: stream.",
  });
  const declare = async () => (await declareQueue("stream")) && list.again();
  return h("div", null, heading("Streams", button("Declare a stream", declare, "primary")), list);
}

function columns() {
  return [
    { title: "Name", sort: "name", once: true, show: queueName },
    { title: "Messages", sort: "messages", number: true, show: (stream) => number(stream.messages) },
    { title: "Offsets", show: offsets },
    { title: "Size", sort: "message_bytes", number: true, show: (stream) => bytes(stream.message_bytes) },
    {
      title: "In",
      sort: "message_stats.publish_details.rate",
      number: true,
      show: (stream) => rate(stream.message_stats?.publish_details.rate ?? 0),
    },
    {
      title: "Out",
      sort: "message_stats.deliver_get_details.rate",
      number: true,
      show: (stream) => rate(stream.message_stats?.deliver_get_details.rate ?? 0),
    },
    { title: "Consumers", sort: "consumers", number: true, show: (stream) => number(stream.consumers) },
    {
      title: "Keeps",
      sign: (stream) => JSON.stringify([stream.arguments, stream.effective_policy_definition]),
      show: retention,
    },
    {
      title: "",
      once: true,
      show: (stream) =>
        menuButton(`Actions for ${stream.name}`, () => [
          ["Publish a message", () => publishTo(stream.vhost, "", stream.name)],
        ]),
    },
  ];
}

function offsets({ first_offset: first, next_offset: next }) {
  return first === undefined || next === undefined
    ? "–"
    : first === next
      ? "empty"
      : `${number(first)} to ${number(next - 1)}`;
}

function retention({ arguments: given, effective_policy_definition: policy }) {
  const setting = (key) => given[`x-${key}`] ?? policy?.[key];
  const limits = ["max-age", "max-length-bytes"].filter((key) => setting(key) !== undefined);
  const text = (key) => (key === "max-length-bytes" ? bytes(setting(key)) : plain(setting(key)));
  return h("div", { class: "badges" }, limits.length ? limits.map((key) => badge(text(key))) : "everything");
}
