// Words to the user: <warren-notice>, a line inside a view for what is wrong with it, and toasts for what was just done.

import { h, setText } from "../dom.js";

const TOAST_MS = 5000;
const TOAST_OF_ERROR_MS = 12000;

class Notice extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "alert");
    if (this.textContent === "") this.hidden = true;
  }

  say(text) {
    this.hidden = false;
    setText(this, text);
  }

  clear() {
    if (this.hidden) return;
    this.textContent = "";
    this.hidden = true;
  }
}

customElements.define("warren-notice", Notice);

export function notice() {
  return h("warren-notice");
}

// Both are in the page from the start: a live region that arrives together with its text is not read out.
const spoken = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
const shouted = h("div", { class: "toasts errors", role: "alert" });
export const toasts = h("div", { class: "toast-place" }, shouted, spoken);

export function tell(text) {
  show(spoken, text, TOAST_MS);
}

export function tellError(error) {
  show(shouted, error.message, TOAST_OF_ERROR_MS);
}

function show(place, text, time) {
  const close = h(
    "button",
    { type: "button", class: "plain", "aria-label": "Dismiss", onclick: () => toast.remove() },
    "×",
  );
  const toast = h("div", { class: "toast" }, h("span", null, text), close);
  place.append(toast);
  setTimeout(() => toast.remove(), time);
}

// For actions: says what was done, or why not; resolves to whether it was.
export async function attempt(action, done) {
  try {
    await action();
  } catch (error) {
    tellError(error);
    return false;
  }
  tell(done);
  return true;
}
