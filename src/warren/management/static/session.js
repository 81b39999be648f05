// Who is logged in, which virtual host is looked at, which theme was chosen. Only the theme outlives a reload.

import { at } from "./api.js";

const THEME = "warren-theme";

export const session = {
  user: null,
  // "" means all that the user may see.
  vhost: "",
  vhosts: [],
};

const MONITORING = ["monitoring", "administrator"];
const POLICYMAKER = ["policymaker", "administrator"];

function hasTag(tags) {
  return session.user !== null && session.user.tags.some((tag) => tags.includes(tag));
}

export const isAdministrator = () => hasTag(["administrator"]);
export const isMonitoring = () => hasTag(MONITORING);
export const isPolicymaker = () => hasTag(POLICYMAKER);

// The path of a list: of the chosen virtual host, or of all.
export function listOf(resource) {
  return session.vhost === "" ? at(resource) : at(resource, session.vhost);
}

// The same where the API has the virtual host first.
export function ofVhost(resource) {
  return session.vhost === "" ? at(resource) : at("vhosts", session.vhost, resource);
}

// Where something new goes when nobody says otherwise.
export function vhostForNew() {
  return session.vhost || (session.vhosts.includes("/") ? "/" : (session.vhosts[0] ?? "/"));
}

// "light", "dark", or "" for what the system prefers.
export function theme() {
  return localStorage.getItem(THEME) ?? "";
}

export function setTheme(value) {
  if (value === "") localStorage.removeItem(THEME);
  else localStorage.setItem(THEME, value);
  showTheme();
}

export function showTheme() {
  document.documentElement.dataset.theme = theme() || (prefersDark.matches ? "dark" : "light");
  document.dispatchEvent(new CustomEvent("theme"));
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", showTheme);
