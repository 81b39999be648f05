// Making elements. Text is always a text node: what users named or sent can never become markup here, and nothing
// else in this page makes elements in any other way.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {class: "link", href: "#/", onclick: f}, "text", child, ...). A null or false attribute or child is left out.
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

// Only when it differs: a screen reader speaks of what is replaced, and a selection would be lost.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let ids = 0;

export function newId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}
