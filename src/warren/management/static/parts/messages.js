// <warren-messages>: looks into a queue without taking anything out of it, and searches in it.

import { deleteMessage, moveMessage, peek } from "../actions/messages.js";
import { fill, h } from "../dom.js";
import { bytes, exchangeName, moment, number, plain, plural } from "../format.js";
import { field, valuesOf } from "./dialog.js";
import { notice } from "./notice.js";
import { badge, button, facts } from "./view.js";

const FIELDS = [
  { name: "routing_key", label: "Routing key", hint: "* is any text" },
  { name: "header", label: "Header", hint: "name, or name=value" },
  { name: "body", label: "Body contains" },
  { name: "older_than", label: "Older than", type: "number", min: 0, hint: "seconds" },
  {
    name: "count",
    label: "Show",
    options: [
      ["10", "10 messages"],
      ["50", "50 messages"],
      ["200", "200 messages"],
    ],
  },
];

class Messages extends HTMLElement {
  // `queue()` is {vhost, name, ...}; `changed()` is called after one was moved or deleted.
  setUp(queue, changed) {
    Object.assign(this, { queue, changed });
    this.problem = notice();
    this.list = h("ol", { class: "messages" });
    this.words = h("p", { class: "muted", role: "status" }, "Peeking leaves every message where it is.");
    this.more = button("Further", () => this.look(this.next));
    this.more.hidden = true;
    const search = (event) => {
      event.preventDefault();
      this.look(0);
    };
    const peekButton = h("button", { type: "submit" }, "Peek");
    this.form = h("form", { class: "search", onsubmit: search }, FIELDS.map(field), peekButton);
    fill(this, this.form, this.words, this.problem, this.list, this.more);
    return this;
  }

  // What is typed into the form, without the fields that are empty.
  filter() {
    const { count, ...all } = valuesOf(this.form, FIELDS);
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
  }

  // After something was done to the queue: what is shown may not be there any more.
  refresh() {
    if (this.list.childElementCount > 0) this.look(0);
  }

  async look(after) {
    const { count } = valuesOf(this.form, FIELDS);
    try {
      this.show(after, await peek(this.queue(), { ...this.filter(), count, after }));
    } catch (error) {
      this.problem.say(error.message);
    }
  }

  show(after, { messages, next, scanned }) {
    this.problem.clear();
    const items = messages.map((message) => this.item(message));
    if (after === 0) fill(this.list, items);
    else this.list.append(...items);
    this.next = next;
    this.more.hidden = next === null;
    const found = this.list.childElementCount;
    const rest = next === null ? "That is all." : "There may be more.";
    fill(
      this.words,
      found === 0 && next === null ? nothing(scanned) : `${plural(found, "message")}, oldest first. ${rest}`,
    );
  }

  item(message) {
    const { headers = {}, ...properties } = message.properties;
    const head = [
      h("b", null, `${exchangeName(message.exchange)} → ${message.routing_key}`),
      badge(`no. ${number(message.sequence)}`),
      badge(bytes(message.payload_bytes)),
      message.redelivered && badge("redelivered", "warn"),
      message.expires_at && badge(`expires ${moment(message.expires_at)}`),
      message.payload_encoding === "base64" && badge("binary, as base64"),
    ];
    const act = (action) => async () => {
      if (!(await action(this.queue(), message))) return;
      line.remove();
      this.changed();
    };
    // A stream keeps what it has.
    const isKept = this.queue().type === "stream";
    const actions = isKept
      ? []
      : [button("Move", act(moveMessage), "quiet"), button("Delete", act(deleteMessage), "quiet")];
    const all = [
      ...Object.entries(properties),
      ...Object.entries(headers).map(([name, value]) => [`header ${name}`, value]),
    ];
    const line = h(
      "li",
      null,
      h("div", { class: "message-head" }, h("div", { class: "badges" }, head), h("div", { class: "actions" }, actions)),
      h("pre", { tabindex: "0", "aria-label": "Body" }, message.payload),
      all.length > 0 && details(all),
    );
    return line;
  }
}

customElements.define("warren-messages", Messages);

export function messageBrowser(queue, changed) {
  return document.createElement("warren-messages").setUp(queue, changed);
}

function nothing(scanned) {
  return scanned === 0 ? "No message is ready." : `None of ${plural(scanned, "message")} is like that.`;
}

function details(all) {
  return h(
    "details",
    null,
    h("summary", null, plural(all.length, "property", "properties")),
    facts(all.map(([name, value]) => [name, plain(value)])),
  );
}
