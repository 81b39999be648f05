// #/connections: who is connected and over which channels, and the way to close a connection.

import { at, remove } from "../api.js";
import { h } from "../dom.js";
import { bytes, moment, number, plural, rate } from "../format.js";
import { confirm } from "../parts/dialog.js";
import { listing } from "../parts/listing.js";
import { attempt } from "../parts/notice.js";
import { badge, button, heading, section } from "../parts/view.js";
import { ofVhost } from "../session.js";

export function connectionsView() {
  const connections = listing({
    path: () => ofVhost("connections"),
    noun: "connection",
    columns: connectionColumns(() => connections.again()),
    sort: "connected_at",
    reverse: true,
    empty: "Nobody is connected.",
  });
  const channels = listing({
    path: () => ofVhost("channels"),
    noun: "channel",
    columns: channelColumns(),
    sort: "name",
    empty: "No channel is open.",
  });
  return h("div", null, heading("Connections"), section("Connections", connections), section("Channels", channels));
}

function connectionColumns(again) {
  return [
    { title: "Client", sort: "name", once: true, show: clientOf },
    { title: "User", sort: "user", show: (connection) => connection.user },
    { title: "Virtual host", sort: "vhost", show: (connection) => connection.vhost },
    {
      title: "State",
      sort: "state",
      sign: (connection) => connection.state,
      show: ({ state }) => badge(state, state === "running" ? "good" : "warn"),
    },
    { title: "TLS", sort: "ssl", show: (connection) => (connection.ssl ? "yes" : "no") },
    { title: "Channels", sort: "channels", number: true, show: (connection) => number(connection.channels) },
    {
      title: "From client",
      sort: "recv_oct_details.rate",
      number: true,
      show: (connection) => `${bytes(connection.recv_oct_details.rate)}/s`,
    },
    {
      title: "To client",
      sort: "send_oct_details.rate",
      number: true,
      show: (connection) => `${bytes(connection.send_oct_details.rate)}/s`,
    },
    { title: "Since", sort: "connected_at", show: (connection) => moment(connection.connected_at) },
    {
      title: "",
      once: true,
      show: (connection) => button("Close", async () => (await close(connection)) && again(), "quiet"),
    },
  ];
}

function clientOf({ name, user_provided_name: given, client_properties: properties }) {
  const product = [properties.product, properties.version].filter((value) => typeof value === "string").join(" ");
  return h(
    "div",
    { class: "name" },
    h("span", null, given ?? name),
    h("small", null, given === undefined ? product : `${name}${product && ` · ${product}`}`),
  );
}

async function close({ name, user, channels }) {
  const facts = [
    `The client of ${user} loses ${plural(channels, "channel")}. What it has not acknowledged goes back into the queues. Most clients connect again.`,
  ];
  const isSure = await confirm({ title: "Close this connection?", facts: [name, ...facts], action: "Close" });
  const reason = { "x-reason": "Closed from the web page" };
  return isSure && attempt(() => remove(at("connections", name), reason), "The connection was closed.");
}

function channelColumns() {
  return [
    { title: "Channel", sort: "name", show: (channel) => channel.name },
    { title: "User", sort: "user", show: (channel) => channel.user },
    {
      title: "Mode",
      sign: modeOf,
      show: (channel) =>
        h(
          "div",
          { class: "badges" },
          modeOf(channel)
            .split(",")
            .filter(Boolean)
            .map((mode) => badge(mode)),
        ),
    },
    { title: "Consumers", sort: "consumer_count", number: true, show: (channel) => number(channel.consumer_count) },
    { title: "Prefetch", sort: "prefetch_count", number: true, show: (channel) => number(channel.prefetch_count) },
    {
      title: "Unacked",
      sort: "messages_unacknowledged",
      number: true,
      show: (channel) => number(channel.messages_unacknowledged),
    },
    {
      title: "Unconfirmed",
      sort: "messages_unconfirmed",
      number: true,
      show: (channel) => number(channel.messages_unconfirmed),
    },
    {
      title: "Publish",
      sort: "message_stats.publish_details.rate",
      number: true,
      show: (channel) => rate(channel.message_stats?.publish_details?.rate ?? 0),
    },
  ];
}

function modeOf(channel) {
  return [channel.confirm && "confirms", channel.transactional && "transactions"].filter(Boolean).join(",");
}
