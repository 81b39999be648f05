// The page itself: login, the frame around the views, and which view an address shows. Addresses are hashes, such as
// #/queues/%2F/orders, so that a link or a bookmark leads to the same thing.

import { get, logIn, logOut, resume } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { history } from "./history.js";
import { field, valuesOf } from "./parts/dialog.js";
import { icon } from "./parts/icons.js";
import { notice, tellError, toasts } from "./parts/notice.js";
import { session, setTheme, showTheme, theme } from "./session.js";
import { accessView } from "./views/access.js";
import { connectionsView } from "./views/connections.js";
import { definitionsView } from "./views/definitions.js";
import { exchangeView } from "./views/exchange.js";
import { exchangesView } from "./views/exchanges.js";
import { journeyView } from "./views/journey.js";
import { overviewView } from "./views/overview.js";
import { pipelinesView } from "./views/pipelines.js";
import { policiesView } from "./views/policies.js";
import { queueView } from "./views/queue.js";
import { queuesView } from "./views/queues.js";
import { streamsView } from "./views/streams.js";

// In the order of the navigation: [address, title, icon, view, view of one thing in it]
const PLACES = [
  ["overview", "Overview", "overview", overviewView],
  ["queues", "Queues", "queues", queuesView, queueView],
  ["exchanges", "Exchanges", "exchanges", exchangesView, exchangeView],
  ["connections", "Connections", "connections", connectionsView],
  ["streams", "Streams", "streams", streamsView],
  ["pipelines", "Pipelines", "pipelines", pipelinesView],
  ["journey", "Journey", "journey", journeyView, journeyView],
  ["policies", "Policies", "policies", policiesView],
  ["access", "Users", "access", accessView],
  ["definitions", "Definitions", "definitions", definitionsView],
];

const LOGIN_REFUSALS = {
  "Login failed": "That user and password do not fit together.",
  "Not management user": "This user may not use the page: an administrator can give it the management tag.",
  "User can only log in via localhost": "This user may log in only from the machine that the broker runs on.",
};
const ALARMS = { fd: "file descriptors" };
const THEMES = [
  ["", "System theme"],
  ["light", "Light theme"],
  ["dark", "Dark theme"],
];

function showLogin(message) {
  const fields = [
    { name: "user", label: "User", required: true, autocomplete: "username" },
    { name: "password", label: "Password", type: "password", required: true, autocomplete: "current-password" },
  ];
  const problem = notice();
  const button = h("button", { type: "submit", class: "primary" }, "Log in");
  const submit = async (event) => {
    event.preventDefault();
    const { user, password } = valuesOf(form, fields);
    button.disabled = true;
    try {
      await enter(await logIn(user, password));
    } catch (error) {
      problem.say(LOGIN_REFUSALS[error.message] ?? error.message);
      form.elements.password.select();
    }
    button.disabled = false;
  };
  const form = h("form", { class: "card login", onsubmit: submit }, fields.map(field), problem, button);
  const brand = h(
    "div",
    { class: "login-brand" },
    h("img", { src: "/static/icon.svg", alt: "", width: 56, height: 56 }),
    h("h1", null, "Warren"),
    h("p", null, "Log in to look after this broker."),
  );
  document.title = "Log in · Warren";
  fill(document.body, h("main", { class: "login-page" }, brand, form), toasts);
  if (message) problem.say(message);
  form.elements.user.focus();
}

async function open() {
  try {
    const user = await resume();
    if (user === null) showLogin("");
    else await enter(user);
  } catch (error) {
    showLogin(error.message);
  }
}

async function enter(user) {
  session.user = user;
  session.vhosts = (await get("/api/vhosts?columns=name")).map((vhost) => vhost.name);
  document.body.classList.remove("with-menu");
  fill(document.body, ...frame(), toasts);
  history.start();
  show();
}

function leave(event) {
  history.stop();
  session.user = null;
  session.vhost = "";
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  showLogin(event.detail);
}

function frame() {
  const skip = h("a", { class: "skip", href: "#main", onclick: skipToMain }, "Skip to the content");
  const links = PLACES.map(([address, title, name]) =>
    h("li", null, h("a", { href: `#/${address}`, "data-address": address }, icon(name), title)),
  );
  const nav = h("nav", { id: "nav", "aria-label": "Views" }, h("ul", null, links));
  const main = h("main", { id: "main", tabindex: "-1" });
  return [skip, header(), nav, main];
}

function header() {
  const toggle = h(
    "button",
    {
      type: "button",
      class: "plain menu-toggle",
      "aria-controls": "nav",
      "aria-expanded": "false",
      "aria-label": "Views",
      onclick: toggleMenu,
    },
    icon("menu"),
  );
  const brand = h(
    "a",
    { class: "brand", href: "#/overview" },
    h("img", { src: "/static/icon.svg", alt: "", width: 28, height: 28 }),
    "Warren",
  );
  const state = h("p", { class: "state", role: "status" });
  const out = h("button", { type: "button", class: "quiet", onclick: () => logOut().catch(tellError) }, "Log out");
  const who = h("span", { class: "who" }, "as ", h("b", null, session.user.name));
  return h(
    "header",
    null,
    toggle,
    brand,
    state,
    h("div", { class: "header-end" }, vhostChoice(), themeChoice(), who, out),
  );
}

function showState() {
  const place = document.querySelector(".state");
  if (place === null) return;
  const alarms = (history.overview?.alarms ?? []).map((alarm) => ALARMS[alarm] ?? alarm);
  place.className = `state ${history.error ? "bad" : alarms.length ? "warn" : "good"}`;
  const fine = history.overview ? `${history.overview.cluster_name} · running` : "";
  setText(
    place,
    history.error ? "No answer" : alarms.length ? `Alarm: ${alarms.join(" and ")} short, publishers are blocked` : fine,
  );
}

function vhostChoice() {
  if (!session.vhosts.includes(session.vhost)) session.vhost = "";
  const options = [["", "All virtual hosts"], ...session.vhosts.map((name) => [name, name])];
  const change = (event) => {
    session.vhost = event.target.value;
    show();
  };
  return h(
    "select",
    { class: "vhost", "aria-label": "Virtual host", onchange: change },
    options.map(([value, text]) => h("option", { value, selected: value === session.vhost }, text)),
  );
}

function themeChoice() {
  const now = theme();
  const options = THEMES.map(([value, text]) => h("option", { value, selected: value === now }, text));
  return h(
    "select",
    { class: "theme", "aria-label": "Theme", onchange: (event) => setTheme(event.target.value) },
    options,
  );
}

function toggleMenu(event) {
  const isOpen = document.body.classList.toggle("with-menu");
  event.currentTarget.setAttribute("aria-expanded", String(isOpen));
}

function closeMenu() {
  document.body.classList.remove("with-menu");
  document.querySelector(".menu-toggle")?.setAttribute("aria-expanded", "false");
}

function skipToMain(event) {
  event.preventDefault();
  document.querySelector("main").focus();
}

// "#/queues/%2F/orders" is ["queues", "/", "orders"].
function addressOf(hash) {
  try {
    return hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return ["overview"];
  }
}

function show() {
  const [address, ...rest] = addressOf(location.hash);
  const place = PLACES.find(([name]) => name === address) ?? PLACES[0];
  const [name, title, , list, one] = place;
  for (const link of document.querySelectorAll("nav [data-address]")) {
    if (link.dataset.address === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  closeMenu();
  document.title = `${rest.at(-1) || title} · Warren`;
  fill(document.querySelector("main"), rest.length > 0 && one ? one(...rest) : list());
}

function moveOn() {
  if (session.user === null) return;
  show();
  const heading = document.querySelector("main h1");
  // So that a screen reader reads where one has come to, and Tab goes on from there.
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
  scrollTo(0, 0);
}

showTheme();
addEventListener("hashchange", moveOn);
history.addEventListener("change", showState);
document.addEventListener("vhosts", () => document.querySelector(".vhost").replaceWith(vhostChoice()));
document.addEventListener("logged-out", leave);
open();
