// #/journey: the path of one message through the broker, stage by stage.

import { h } from "../dom.js";
import { empty, heading } from "../parts/view.js";

export function journeyView() {
  return h("div", null, heading("Journey"), empty("No traces."));
}
