// What the views are made of: their heading with its buttons, sections, lists of facts, badges, and a view that asks
// the API again and again by itself.

import { h } from "../dom.js";
import { plain } from "../format.js";
import { Poller, Polling } from "../poll.js";
import { session } from "../session.js";
import { notice } from "./notice.js";

export function heading(title, ...actions) {
  return h("div", { class: "heading" }, h("h1", null, title), h("div", { class: "actions" }, actions));
}

export function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: kind, onclick }, text);
}

export function section(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", null, title), children);
}

const WORD_LENGTH = 16;

export function badge(text, kind = "") {
  // A word stays in one piece however narrow its column is; what somebody called a thing may have to be broken.
  return h("span", { class: `badge ${kind}${text.length <= WORD_LENGTH ? " word" : ""}` }, text);
}

// [[what, value], ...]; a value is text or an element.
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.map(([what, value]) => h("div", null, h("dt", null, what), h("dd", null, value))),
  );
}

export function table(object) {
  return facts(Object.entries(object).map(([name, value]) => [name, plain(value)]));
}

export function empty(text, ...more) {
  return h("div", { class: "empty" }, h("p", null, text), more);
}

// In place of a view that only administrators may see.
export function closed(title, why) {
  return h("div", null, heading(title), empty(why));
}

export function link(text, ...address) {
  return h("a", { href: `#/${address.map(encodeURIComponent).join("/")}` }, text);
}

// A thing's link in a list, with its virtual host where the list is of several.
export function placed(vhost, ...address) {
  const where = session.vhost === "" && session.vhosts.length > 1 ? h("small", null, vhost) : null;
  return h("div", { class: "name" }, link(...address), where);
}

// <warren-live>: `load(signal)` asks, `show(answer)` shows, and what goes wrong is said on top.
class Live extends Polling {
  setUp({ load, show, children }) {
    this.problem = notice();
    this.append(this.problem, ...children);
    this.poller = new Poller(
      async (signal) => {
        const answer = await load(signal);
        this.problem.clear();
        show(answer);
      },
      (error) =>
        this.problem.say(error.status === 404 ? "This is not there, or no longer." : `${error.message} Trying again.`),
    );
    return this;
  }

  again() {
    return this.poller.now();
  }
}

customElements.define("warren-live", Live);

export function live(options) {
  return document.createElement("warren-live").setUp(options);
}
