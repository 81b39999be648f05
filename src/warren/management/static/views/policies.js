// #/policies: rules that operators lay over queues and exchanges, and the operator policies that limit them.

import { at, put, remove } from "../api.js";
import { vhostOptions } from "../actions/queues.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { ask, confirm, objectIn } from "../parts/dialog.js";
import { listing } from "../parts/listing.js";
import { menuButton } from "../parts/menu.js";
import { attempt, tell } from "../parts/notice.js";
import { button, heading, section, table } from "../parts/view.js";
import { isAdministrator, isPolicymaker, listOf, vhostForNew } from "../session.js";

const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const KINDS = {
  policies: {
    title: "policy",
    mayChange: isPolicymaker,
    example: '{"max-length": 10000, "dead-letter-exchange": "dead"}',
  },
  "operator-policies": { title: "operator policy", mayChange: isAdministrator, example: '{"message-ttl": 3600000}' },
};

export function policiesView() {
  const lists = Object.keys(KINDS).map(policyList);
  const add = (kind, index) =>
    KINDS[kind].mayChange() &&
    button(
      `Add a${kind === "policies" ? "" : "n"} ${KINDS[kind].title}`,
      async () => (await edit(kind)) && lists[index].again(),
      index === 0 ? "primary" : "",
    );
  return h(
    "div",
    null,
    heading("Policies", Object.keys(KINDS).map(add)),
    section("Policies", lists[0]),
    section("Operator policies", lists[1]),
  );
}

function policyList(kind) {
  const list = listing({
    path: () => listOf(kind),
    noun: KINDS[kind].title,
    nouns: KINDS[kind].title.replace(/y$/, "ies"),
    sort: "priority",
    reverse: true,
    empty:
      kind === "policies" ? "No policies: queues and exchanges are as they were declared." : "No operator policies.",
    columns: [
      { title: "Name", sort: "name", show: (policy) => policy.name },
      { title: "Virtual host", sort: "vhost", show: (policy) => policy.vhost },
      { title: "Pattern", sign: (policy) => policy.pattern, show: (policy) => h("code", null, policy.pattern) },
      { title: "Applies to", sort: "apply-to", show: (policy) => policy["apply-to"] },
      {
        title: "Sets",
        sign: (policy) => JSON.stringify(policy.definition),
        show: (policy) => table(policy.definition),
      },
      { title: "Priority", sort: "priority", number: true, show: (policy) => number(policy.priority) },
      {
        title: "",
        once: true,
        show: (policy, row) =>
          KINDS[kind].mayChange()
            ? menuButton(`Actions for ${policy.name}`, () => actions(kind, row.item, () => list.again()))
            : "",
      },
    ],
  });
  return list;
}

function actions(kind, policy, again) {
  return [
    ["Change", async () => (await edit(kind, policy)) && again()],
    ["Delete", async () => (await deletePolicy(kind, policy)) && again(), true],
  ];
}

function edit(kind, policy) {
  const fields = [
    { name: "vhost", label: "Virtual host", options: vhostOptions(), value: policy?.vhost ?? vhostForNew() },
    { name: "name", label: "Name", value: policy?.name, required: true },
    {
      name: "pattern",
      label: "Pattern",
      value: policy?.pattern,
      required: true,
      hint: "A regular expression on names, such as ^orders\\.",
    },
    {
      name: "applyTo",
      label: "Applies to",
      options: APPLY_TO.map((value) => [value, value.replace("_", " ")]),
      value: policy?.["apply-to"] ?? "all",
    },
    {
      name: "definition",
      label: "Sets",
      rows: 4,
      required: true,
      value: policy ? JSON.stringify(policy.definition, null, 2) : "",
      hint: `JSON, such as ${KINDS[kind].example}`,
    },
    {
      name: "priority",
      label: "Priority",
      type: "number",
      value: policy?.priority ?? 0,
      hint: "Of those that match, the one with the highest applies.",
    },
  ];
  const submit = async ({ vhost, name, pattern, applyTo, definition, priority }) => {
    await put(at(kind, vhost, name), {
      pattern,
      definition: objectIn(definition, "What it sets"),
      priority,
      "apply-to": applyTo,
    });
    tell(`The ${KINDS[kind].title} ${name} applies from now on.`);
  };
  return ask({ title: policy ? `Change ${policy.name}` : `Add a${kind === "policies" ? "" : "n"} ${KINDS[kind].title}`, fields, action: "Save", submit });
}

async function deletePolicy(kind, { vhost, name }) {
  const facts = ["What it set is as declared again, at once."];
  const isSure = await confirm({ title: `Delete the ${KINDS[kind].title} ${name}?`, facts, action: "Delete" });
  return isSure && attempt(() => remove(at(kind, vhost, name)), `${name} was deleted.`);
}
