// A button that opens a menu of actions: arrow keys move, Escape closes, focus goes back to the button.

import { h, newId } from "../dom.js";
import { icon } from "./icons.js";

// `items()` is asked when the menu opens: [[text, action, isDangerous], ...]
export function menuButton(label, items) {
  const button = h(
    "button",
    {
      type: "button",
      class: "plain menu-button",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      "aria-label": label,
    },
    icon("more"),
  );
  button.addEventListener("click", () => openMenu(button, label, items()));
  return button;
}

function openMenu(button, label, items) {
  const menu = h("div", { class: "menu", role: "menu", id: newId("menu"), "aria-label": label, popover: "auto" });
  for (const [text, action, isDangerous] of items) {
    const choose = () => {
      menu.hidePopover();
      action();
    };
    menu.append(
      h(
        "button",
        {
          type: "button",
          role: "menuitem",
          tabindex: "-1",
          class: isDangerous ? "danger-text" : null,
          onclick: choose,
        },
        text,
      ),
    );
  }
  menu.addEventListener("keydown", (event) => move(event, menu));
  menu.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    button.setAttribute("aria-expanded", "false");
    if (menu.contains(document.activeElement) || document.activeElement === document.body) button.focus();
    menu.remove();
  });
  document.querySelector("main").append(menu);
  menu.showPopover();
  place(menu, button.getBoundingClientRect());
  button.setAttribute("aria-expanded", "true");
  menu.firstElementChild.focus();
}

function place(menu, at) {
  const { width, height } = menu.getBoundingClientRect();
  const below = at.bottom + height + 8 < innerHeight;
  menu.style.left = `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`;
  menu.style.top = `${below ? at.bottom + 4 : Math.max(8, at.top - height - 4)}px`;
}

function move(event, menu) {
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  const all = [...menu.children];
  const now = all.indexOf(document.activeElement);
  const targets = { Home: 0, End: all.length - 1 };
  if (event.key in steps) all[(now + steps[event.key] + all.length) % all.length].focus();
  else if (event.key in targets) all[targets[event.key]].focus();
  else if (event.key === "Tab") menu.hidePopover();
  else return;
  event.preventDefault();
}
