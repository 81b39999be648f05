// #/access: users, what each may do in which virtual host, and the virtual hosts.

import { at, get, put, remove } from "../api.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { ask, confirm } from "../parts/dialog.js";
import { listing } from "../parts/listing.js";
import { menuButton } from "../parts/menu.js";
import { attempt, tell } from "../parts/notice.js";
import { badge, button, closed, heading, section } from "../parts/view.js";
import { isAdministrator, ofVhost, session, vhostForNew } from "../session.js";

const TAGS = "administrator, monitoring, policymaker, management; several with commas, or none";

export function accessView() {
  if (!isAdministrator())
    return closed("Users", "Users and permissions are shown to administrators. You can change nothing here as this user.");
  const again = () => [users, permissions, topics, vhosts].forEach((list) => list.again());
  const then = (action) => async () => (await action()) && again();
  const users = userList(again);
  const permissions = permissionList(again);
  const topics = topicList();
  const vhosts = vhostList(again);
  return h(
    "div",
    null,
    heading(
      "Users",
      button(
        "Add a user",
        then(() => editUser()),
        "primary",
      ),
      button(
        "Set permissions",
        then(() => editPermission()),
      ),
      button("Add a virtual host", then(addVhost)),
    ),
    section("Users", users),
    section("Permissions", permissions),
    section("Topic permissions", topics),
    section("Virtual hosts", vhosts),
  );
}

function userList(again) {
  return listing({
    path: () => at("users"),
    noun: "user",
    sort: "name",
    columns: [
      { title: "Name", sort: "name", show: (user) => user.name },
      { title: "Tags", sign: (user) => String(user.tags), show: (user) => tagsOf(user.tags) },
      { title: "Password", show: (user) => (user.password_hash ? "set" : "none: cannot log in with one") },
      {
        title: "",
        once: true,
        show: (user, row) => menuButton(`Actions for ${user.name}`, () => userActions(row.item, again)),
      },
    ],
  });
}

function tagsOf(tags) {
  const all = (Array.isArray(tags) ? tags : String(tags).split(",")).filter(Boolean);
  return h(
    "div",
    { class: "badges" },
    all.length ? all.map((tag) => badge(tag, tag === "administrator" ? "policy" : "")) : "none",
  );
}

function userActions(user, again) {
  const then = (action) => async () => (await action()) && again();
  return [
    ["Set permissions", then(() => editPermission({ user: user.name }))],
    ["Set topic permissions", then(() => editTopicPermission(user.name))],
    ["Change password or tags", then(() => editUser(user))],
    ["Delete", then(() => deleteUser(user)), true],
  ];
}

function editUser(user) {
  const fields = [
    { name: "name", label: "Name", value: user?.name, required: true },
    {
      name: "password",
      label: "Password",
      type: "password",
      required: user === undefined,
      autocomplete: "new-password",
      hint: user && "Leave empty to keep the present one.",
    },
    { name: "tags", label: "Tags", value: user ? String(user.tags) : "management", hint: TAGS },
  ];
  const submit = async ({ name, password, tags }) => {
    const kept = user && { password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm };
    await put(at("users", name), { tags, ...(password === "" ? kept : { password }) });
    tell(`User ${name} is set.`);
  };
  return ask({ title: user ? `Change ${user.name}` : "Add a user", fields, action: "Save", submit });
}

async function deleteUser({ name }) {
  const facts = ["With the user go all its permissions."];
  const isSure = await confirm({ title: `Delete the user ${name}?`, facts, action: "Delete" });
  return isSure && attempt(() => remove(at("users", name)), `${name} was deleted.`);
}

function permissionList(again) {
  const actions = {
    title: "",
    once: true,
    show: (each, row) =>
      menuButton(`Actions for the permissions of ${each.user} in ${each.vhost}`, () =>
        permissionActions(row.item, again),
      ),
  };
  const columns = [...["Configure", "Write", "Read"].map(pattern), actions];
  return rightsList("permissions", "permission", "Nobody may do anything yet.", columns);
}

function rightsList(kind, noun, empty, columns) {
  return listing({
    path: () => ofVhost(kind),
    noun,
    sort: "user",
    filterable: false,
    empty,
    columns: [
      { title: "User", sort: "user", show: (each) => each.user },
      { title: "Virtual host", sort: "vhost", show: (each) => each.vhost },
      ...columns,
    ],
  });
}

function pattern(title) {
  const name = title.toLowerCase();
  return { title, sign: (each) => each[name], show: (each) => shown(each[name]) };
}

function shown(text) {
  return text === "" ? h("span", { class: "muted" }, "nothing") : h("code", null, text);
}

function permissionActions(permission, again) {
  return [
    ["Change", async () => (await editPermission(permission)) && again()],
    ["Take away", async () => (await deletePermission(permission)) && again(), true],
  ];
}

function editPermission(given = {}) {
  const fields = [
    { name: "user", label: "User", value: given.user, required: true },
    {
      name: "vhost",
      label: "Virtual host",
      value: given.vhost ?? vhostForNew(),
      options: session.vhosts.map((name) => [name, name]),
    },
    {
      name: "configure",
      label: "May configure",
      value: given.configure ?? ".*",
      hint: "A regular expression on names of queues and exchanges; empty is none.",
    },
    { name: "write", label: "May write to", value: given.write ?? ".*" },
    { name: "read", label: "May read from", value: given.read ?? ".*" },
  ];
  const submit = async ({ user, vhost, ...patterns }) => {
    await put(at("permissions", vhost, user), patterns);
    tell(`Permissions of ${user} are set.`);
  };
  return ask({ title: "Set permissions", fields, action: "Save", submit });
}

async function deletePermission({ user, vhost }) {
  const isSure = await confirm({
    title: `Take ${vhost} away from ${user}?`,
    facts: [`${user} can no longer use this virtual host.`],
    action: "Take away",
  });
  return isSure && attempt(() => remove(at("permissions", vhost, user)), "The permission was taken away.");
}

function topicList() {
  const exchange = { title: "Exchange", sort: "exchange", show: (each) => each.exchange };
  const empty = "No routing keys are restricted. A user's menu sets topic permissions.";
  return rightsList("topic-permissions", "topic permission", empty, [exchange, ...["Write", "Read"].map(pattern)]);
}

function editTopicPermission(user) {
  const fields = [
    { name: "vhost", label: "Virtual host", value: vhostForNew(), options: session.vhosts.map((name) => [name, name]) },
    { name: "exchange", label: "Topic exchange", value: "amq.topic", required: true },
    { name: "write", label: "May publish with keys like", value: ".*" },
    { name: "read", label: "May bind with keys like", value: ".*" },
  ];
  const submit = async ({ vhost, ...rest }) => {
    await put(at("topic-permissions", vhost, user), rest);
    tell(`Topic permissions of ${user} are set.`);
  };
  return ask({ title: `Topic permissions of ${user}`, fields, action: "Save", submit });
}

function vhostList(again) {
  return listing({
    path: () => at("vhosts"),
    noun: "virtual host",
    sort: "name",
    columns: [
      { title: "Name", sort: "name", show: (vhost) => vhost.name },
      { title: "Description", show: (vhost) => vhost.description ?? "" },
      { title: "Default queue type", show: (vhost) => vhost.default_queue_type ?? "" },
      { title: "Messages", sort: "messages", number: true, show: (vhost) => number(vhost.messages) },
      {
        title: "",
        once: true,
        show: (vhost) => button("Delete", async () => (await deleteVhost(vhost)) && again(), "quiet"),
      },
    ],
  });
}

function addVhost() {
  const fields = [
    { name: "name", label: "Name", required: true },
    { name: "description", label: "Description" },
  ];
  const submit = async ({ name, description }) => {
    await put(at("vhosts", name), { description });
    await refreshVhosts();
    tell(`Virtual host ${name} is there.`);
  };
  return ask({ title: "Add a virtual host", fields, action: "Add", submit });
}

async function deleteVhost({ name, messages }) {
  const facts = [
    `All its queues, exchanges, bindings, policies and permissions go, and ${number(messages ?? 0)} messages. Its connections are closed.`,
  ];
  const isSure = await confirm({ title: `Delete the virtual host ${name}?`, facts, action: "Delete" });
  const run = async () => {
    await remove(at("vhosts", name));
    await refreshVhosts();
  };
  return isSure && attempt(run, `${name} was deleted.`);
}

async function refreshVhosts() {
  session.vhosts = (await get("/api/vhosts?columns=name")).map((vhost) => vhost.name);
  document.dispatchEvent(new CustomEvent("vhosts"));
}
