// The bindings of a queue or an exchange: the other end, the key, and a way to undo each.

import { unbind } from "../actions/bindings.js";
import { h } from "../dom.js";
import { exchangeName } from "../format.js";
import { table } from "./table.js";
import { button, empty, link } from "./view.js";

export const sourceOf = ({ vhost, source }) =>
  source === "" ? exchangeName(source) : link(source, "exchanges", vhost, source);

/** `end` shows whatever is at the other end; `again` is called when there is one binding less. */
export function bindingTable({ caption, title, none, end, again }) {
  const nothing = empty(none);
  const shown = table({
    caption,
    key: (binding) =>
      JSON.stringify([binding.source, binding.destination_type, binding.destination, binding.properties_key]),
    columns: [
      { title, once: true, show: end },
      { title: "Key", show: (binding) => binding.routing_key },
      { title: "Arguments", show: ({ arguments: given }) => (Object.keys(given).length ? JSON.stringify(given) : "") },
      // Every queue is bound to the default exchange by its name, and that cannot be undone.
      {
        title: "",
        once: true,
        show: (binding) =>
          binding.source === "" ? "" : button("Unbind", async () => (await unbind(binding)) && again(), "quiet"),
      },
    ],
  });
  const show = (items) => {
    shown.show(items);
    shown.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  };
  return { element: h("div", null, shown, nothing), show };
}
