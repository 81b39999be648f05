// Questions to the user, in <dialog>: one to be sure of a dangerous thing, and forms. The element brings the rest along:
// focus stays inside, Escape leaves, and focus returns to where it was.

import { fill, h, newId } from "../dom.js";

// Resolves to true when the user said yes. `facts` are lines that say what would be lost.
export function confirm({ title, facts = [], action, danger = true }) {
  const form = h(
    "form",
    { method: "dialog" },
    facts.map((fact) => h("p", null, fact)),
  );
  return open(title, form, action, danger, () => true).then(Boolean);
}

// Fields: {name, label, type, value, options, hint, required, rows}. `submit(values)` may throw: then the dialog stays
// and says why. Resolves to what submit returned, or null when the user left.
export function ask({ title, intro, fields, action, submit, danger = false }) {
  const form = h("form", { method: "dialog", novalidate: false }, intro && h("p", null, intro), fields.map(field));
  return open(title, form, action, danger, () => submit(valuesOf(form, fields)));
}

function open(title, form, action, danger, submit) {
  const heading = newId("dialog");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const yes = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  form.append(problem, h("div", { class: "buttons" }, cancel, yes));
  const dialog = h("dialog", { "aria-labelledby": heading }, h("h2", { id: heading }, title), form);
  return new Promise((resolve) => {
    let result = null;
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      yes.disabled = true;
      try {
        result = (await submit()) ?? true;
        dialog.close();
      } catch (error) {
        problem.hidden = false;
        fill(problem, error.message);
      }
      yes.disabled = false;
    });
    document.body.append(dialog);
    dialog.showModal();
    // The way out first where something could be lost; else the first thing that is still to be said.
    if (danger) cancel.focus();
    else form.querySelector(":invalid")?.focus();
  });
}

export function field(options) {
  const id = newId("field");
  const hint = options.hint ? h("small", { id: `${id}-hint` }, options.hint) : null;
  const common = { id, name: options.name, required: options.required, "aria-describedby": hint && hint.id };
  const control = controlOf(options, common);
  if (options.type === "checkbox")
    return h("div", { class: "field check" }, control, h("label", { for: id }, options.label), hint);
  return h("div", { class: "field" }, h("label", { for: id }, options.label), control, hint);
}

function controlOf(options, common) {
  if (options.options) {
    const chosen = options.value ?? options.options[0]?.[0];
    return h(
      "select",
      common,
      options.options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    );
  }
  if (options.rows)
    return h("textarea", { ...common, rows: options.rows, spellcheck: "false", value: options.value ?? "" });
  if (options.type === "checkbox") return h("input", { ...common, type: "checkbox", checked: options.value ?? false });
  const more = { autocomplete: options.autocomplete ?? "off", min: options.min, max: options.max, list: options.list };
  return h("input", { ...common, ...more, type: options.type ?? "text", value: options.value ?? "" });
}

export function valuesOf(form, fields) {
  const values = {};
  for (const { name, type } of fields) {
    const control = form.elements[name];
    values[name] =
      type === "checkbox"
        ? control.checked
        : type === "number" && control.value !== ""
          ? Number(control.value)
          : control.value;
  }
  return values;
}

// Arguments and headers are typed as JSON; nothing typed is an empty object.
export function objectIn(text, what) {
  if (text.trim() === "") return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} must be JSON, such as {"key": "value"}: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new Error(`${what} must be a JSON object, such as {"key": "value"}`);
  return value;
}
