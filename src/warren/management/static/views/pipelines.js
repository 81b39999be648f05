// #/pipelines: declared pipelines, what state each is in, how fast it goes and how far behind it is.

import { get } from "../api.js";
import { h } from "../dom.js";
import { duration, number, plain } from "../format.js";
import { table } from "../parts/table.js";
import { badge, empty, heading, live } from "../parts/view.js";

const STATES = { running: "good", failed: "bad", stopped: "", starting: "warn" };

export function pipelinesView() {
  let hasNone = false;
  const nothing = empty(
    "There are no pipelines. A pipeline reads a queue, a stream or a table, works on it with SQL on Spark, and writes to an exchange or a table; it is declared in a file and started with",
    h("p", null, h("code", null, "warren pipeline run FILE")),
  );
  const shown = table({ caption: "Pipelines", key: (pipeline) => pipeline.name, columns: columns() });
  const show = (items) => {
    shown.show(items);
    shown.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  };
  // A broker without pipelines has no such resource; it is asked again when the view is opened again.
  const load = async (signal) => {
    if (hasNone) return [];
    const items = await pipelines(signal);
    hasNone = items === null;
    return items ?? [];
  };
  return live({ load, show, children: [heading("Pipelines"), shown, nothing] });
}

async function pipelines(signal) {
  try {
    const answer = await get("/api/pipelines", signal);
    return Array.isArray(answer) ? answer : (answer.items ?? []);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function columns() {
  return [
    { title: "Name", show: (pipeline) => plain(pipeline.name) },
    {
      title: "State",
      sign: (pipeline) => String(pipeline.state),
      show: ({ state }) => badge(plain(state ?? "unknown"), STATES[state] ?? ""),
    },
    { title: "From", show: (pipeline) => plain(pipeline.source ?? "–") },
    { title: "To", show: (pipeline) => plain(pipeline.sink ?? "–") },
    { title: "Rows/s", number: true, show: (pipeline) => number(pipeline.rows_per_second) },
    { title: "Rows", number: true, show: (pipeline) => number(pipeline.rows) },
    { title: "Lag", number: true, show: lag },
    { title: "Trouble", show: (pipeline) => plain(pipeline.error ?? "") },
  ];
}

// In messages, in time, or both, as far as the pipeline knows.
function lag({ lag: messages, lag_ms: time }) {
  const parts = [];
  if (typeof messages === "number") parts.push(number(messages));
  if (typeof time === "number") parts.push(duration(time));
  return parts.join(", ") || "–";
}
