// The nodes of a cluster: the one that leads, and a line to each that mirrors it, whole where that one is in sync. A
// broker on its own draws nothing.

import { fill, h } from "../dom.js";
import { bytes, plural } from "../format.js";
import { badge, section } from "./view.js";

export function mirrors() {
  const drawing = h("div", { class: "mirrors" });
  const element = section("Nodes", h("div", { class: "card" }, drawing));
  element.hidden = true;
  const show = (nodes) => {
    const leader = nodes.find((node) => node.role === "leader");
    element.hidden = leader === undefined;
    if (element.hidden) return;
    const others = nodes.filter((node) => node !== leader);
    const states = h("ul", null, others.map((node) => h("li", { class: stateOf(node).line }, card(node))));
    fill(drawing, card(leader), others.length > 0 ? states : h("p", null, "Nobody mirrors it."));
  };
  return { element, show };
}

function card(node) {
  const { text, kind } = stateOf(node);
  const behind = node.lag_ops > 0 ? `${plural(node.lag_ops, "change")} behind, ${bytes(node.lag_bytes)}` : "";
  return h(
    "div",
    { class: "mirror" },
    h("b", null, node.name || node.uuid),
    h("span", { class: "badges" }, badge(node.role, "kind"), text === "" ? null : badge(text, kind)),
    h("small", null, [node.amqp, node.version && `Warren ${node.version}`, behind].filter(Boolean).join(" · ")),
  );
}

function stateOf(node) {
  if (node.role === "leader") return { text: "", kind: "", line: "" };
  if (!node.running) return { text: node.in_sync ? "missed" : "not there", kind: "bad", line: "gone" };
  return node.in_sync
    ? { text: "in sync", kind: "good", line: "whole" }
    : { text: "catching up", kind: "warn", line: "partial" };
}
