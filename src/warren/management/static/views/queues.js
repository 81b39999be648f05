// #/queues: all queues, busiest first if one likes, with what can be done to each.

import { declareQueue, deleteQueue, publishTo, purgeQueue } from "../actions/queues.js";
import { moveMessages } from "../actions/messages.js";
import { h } from "../dom.js";
import { number, rate } from "../format.js";
import { listing } from "../parts/listing.js";
import { menuButton } from "../parts/menu.js";
import { badge, button, heading, placed } from "../parts/view.js";

export function queuesView() {
  const list = listing({
    noun: "queue",
    columns: columns(() => list.again()),
    sort: "messages",
    reverse: true,
    empty: "There are no queues yet. A client declares one, or you do with the button above.",
  });
  const declare = async () => (await declareQueue()) && list.again();
  return h("div", null, heading("Queues", button("Declare a queue", declare, "primary")), list);
}

function columns(again) {
  return [
    { title: "Name", sort: "name", show: queueName, once: true },
    {
      title: "Features",
      show: features,
      sign: (queue) => JSON.stringify([queue.type, queue.durable, queue.policy, queue.arguments]),
    },
    { title: "Ready", sort: "messages_ready", number: true, show: (queue) => number(queue.messages_ready) },
    {
      title: "Unacked",
      sort: "messages_unacknowledged",
      number: true,
      show: (queue) => number(queue.messages_unacknowledged),
    },
    { title: "Total", sort: "messages", number: true, show: (queue) => number(queue.messages) },
    {
      title: "In",
      sort: "message_stats.publish_details.rate",
      number: true,
      show: (queue) => rate(queue.message_stats?.publish_details.rate),
    },
    {
      title: "Out",
      sort: "message_stats.deliver_get_details.rate",
      number: true,
      show: (queue) => rate(queue.message_stats?.deliver_get_details.rate),
    },
    { title: "Consumers", sort: "consumers", number: true, show: (queue) => number(queue.consumers) },
    {
      title: "",
      once: true,
      show: (queue, row) => menuButton(`Actions for ${queue.name}`, () => actions(row.item, again)),
    },
  ];
}

export const queueName = ({ vhost, name }) => placed(vhost, name, "queues", vhost, name);

export function features(queue) {
  const all = [badge(queue.type, `type-${queue.type}`)];
  if (queue.durable) all.push(badge("durable"));
  if (queue.exclusive) all.push(badge("exclusive"));
  if (queue.auto_delete) all.push(badge("auto-delete"));
  if (queue.policy) all.push(badge(queue.policy, "policy"));
  const names = Object.keys(queue.arguments).filter((name) => name !== "x-queue-type");
  for (const name of names) all.push(badge(name.replace(/^x-/, "")));
  return h("div", { class: "badges" }, all);
}

function actions(queue, again) {
  const then = (action) => async () => (await action(queue)) && again();
  return [
    [
      "Peek at messages",
      () => (location.hash = `#/queues/${encodeURIComponent(queue.vhost)}/${encodeURIComponent(queue.name)}`),
    ],
    ["Publish a message", then(() => publishTo(queue.vhost, "", queue.name))],
    ["Move messages", then(moveMessages)],
    ["Purge", then(purgeQueue), true],
    ["Delete", then(deleteQueue), true],
  ];
}
