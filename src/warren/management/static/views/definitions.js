// #/definitions: everything that was declared as one document, out and in. The files are RabbitMQ's.

import { get, post } from "../api.js";
import { fill, h, newId } from "../dom.js";
import { number, plural } from "../format.js";
import { confirm } from "../parts/dialog.js";
import { attempt, notice, tellError } from "../parts/notice.js";
import { button, closed, facts, heading, section } from "../parts/view.js";
import { isAdministrator, listOf, session } from "../session.js";

// In the order in which people think of them; the rest of a document is counted as "other".
const KINDS = [
  "vhosts",
  "users",
  "permissions",
  "topic_permissions",
  "exchanges",
  "queues",
  "bindings",
  "policies",
  "parameters",
  "global_parameters",
];

export function definitionsView() {
  if (!isAdministrator())
    return closed(
      "Definitions",
      "Definitions hold the users and their password hashes: only administrators may export and import them.",
    );
  return h(
    "div",
    null,
    heading("Definitions"),
    h("div", { class: "columns" }, section("Export", exporting()), section("Import", importing())),
  );
}

const scope = () => (session.vhost === "" ? "the whole broker" : `the virtual host ${session.vhost}`);

function exporting() {
  const problem = notice();
  const counts = h("div");
  const run = async () => {
    try {
      download(await get(listOf("definitions")));
    } catch (error) {
      tellError(error);
    }
  };
  get(listOf("definitions")).then(
    (all) => fill(counts, countsOf(all)),
    (error) => problem.say(error.message),
  );
  return [
    h(
      "p",
      null,
      `Vhosts, users with their password hashes, permissions, exchanges, queues, bindings and policies of ${scope()}, as one JSON file that RabbitMQ reads too. Messages are not in it.`,
    ),
    problem,
    counts,
    button("Download definitions", run, "primary"),
  ];
}

function download(definitions) {
  const blob = new Blob([JSON.stringify(definitions, null, 2)], { type: "application/json" });
  const day = new Date().toISOString().slice(0, 10);
  const anchor = h("a", { href: URL.createObjectURL(blob), download: `warren-${day}.json` });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}

function countsOf(definitions) {
  const pairs = KINDS.filter((kind) => Array.isArray(definitions[kind])).map((kind) => [
    kind.replace("_", " "),
    number(definitions[kind].length),
  ]);
  return facts(pairs);
}

function importing() {
  const id = newId("file");
  const place = h("div");
  const problem = notice();
  const choose = async (event) => {
    fill(place);
    problem.clear();
    const [file] = event.target.files;
    if (file === undefined) return;
    try {
      showFile(place, file.name, parse(await file.text()));
    } catch (error) {
      problem.say(error.message);
    }
  };
  return [
    h("p", null, `Importing into ${scope()} only ever adds: what is there already stays as it is.`),
    h(
      "div",
      { class: "field" },
      h("label", { for: id }, "Definitions file (JSON, also RabbitMQ's)"),
      h("input", { id, type: "file", accept: ".json,application/json", onchange: choose }),
    ),
    problem,
    place,
  ];
}

function parse(text) {
  let value = null;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || !KINDS.some((kind) => Array.isArray(value[kind]))) {
    throw new Error("This file holds no definitions: none of vhosts, users, exchanges, queues or the like is in it.");
  }
  return value;
}

function showFile(place, name, definitions) {
  const count = KINDS.reduce((sum, kind) => sum + (definitions[kind]?.length ?? 0), 0);
  const run = async () => {
    const isSure = await confirm({
      title: `Import ${name}?`,
      facts: [`${plural(count, "definition")} will be added to ${scope()}.`],
      action: "Import",
      danger: false,
    });
    if (isSure) await attempt(() => post(listOf("definitions"), definitions), `${name} was imported.`);
  };
  fill(place, h("h3", null, name), countsOf(definitions), button("Import", run, "primary"));
}
