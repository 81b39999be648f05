// <warren-messages>: looks into a queue without taking anything out of it.

import { peek } from "../actions/messages.js";
import { fill, h, newId } from "../dom.js";
import { bytes, exchangeName, plain, plural } from "../format.js";
import { notice } from "./notice.js";
import { badge, button, facts } from "./view.js";

const COUNTS = [10, 50, 200];

class Messages extends HTMLElement {
  setUp(queue) {
    this.queue = queue;
    this.problem = notice();
    this.list = h("ol", { class: "messages" });
    this.words = h("p", { class: "muted", role: "status" }, "Peeking shows messages and leaves them where they are.");
    const id = newId("count");
    this.count = h("select", { id }, COUNTS.map((count) => h("option", { value: count }, plural(count, "message"))));
    const toolbar = h("div", { class: "toolbar" }, h("label", { for: id, class: "unseen" }, "How many"), this.count, button("Peek", () => this.look()), this.words);
    fill(this, toolbar, this.problem, this.list);
    return this;
  }

  async look() {
    try {
      const messages = await peek(this.queue(), { count: Number(this.count.value) });
      this.problem.clear();
      fill(this.list, messages.map(item));
      fill(this.words, messages.length === 0 ? "The queue holds no ready message." : `${plural(messages.length, "message")}, oldest first.`);
    } catch (error) {
      this.problem.say(error.message);
    }
  }
}

customElements.define("warren-messages", Messages);

export function messageBrowser(queue) {
  return document.createElement("warren-messages").setUp(queue);
}

function item(message) {
  const { headers = {}, ...properties } = message.properties;
  const head = [
    h("b", null, `${exchangeName(message.exchange)} → ${message.routing_key}`),
    badge(bytes(message.payload_bytes)),
    message.redelivered && badge("redelivered", "warn"),
    message.payload_encoding === "base64" && badge("binary, shown as base64"),
  ];
  const all = [...Object.entries(properties), ...Object.entries(headers).map(([name, value]) => [`header ${name}`, value])];
  return h("li", null, h("p", { class: "badges" }, head), h("pre", { tabindex: "0" }, message.payload), all.length > 0 && details(all));
}

function details(all) {
  return h("details", null, h("summary", null, plural(all.length, "property", "properties")), facts(all.map(([name, value]) => [name, plain(value)])));
}
