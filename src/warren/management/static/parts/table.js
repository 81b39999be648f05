// <warren-table>: rows that stay the same elements while their values change, so that focus, selection and the place
// of the pointer survive a refresh each second. Sorting is asked for with a "sort" event; whoever owns the table does it.

import { fill, h, setText } from "../dom.js";

// A column: {title, show(item) -> text or element}, and if wanted
//   sort     what to sort by, a path into the item; without it the heading is plain text
//   sign     (item) -> text; an element is made anew only when this differs (without it: once)
//   number   true for figures, set to the right
//   label    what a screen reader hears where the title is empty
class Table extends HTMLElement {
  setUp({ caption, columns, key, sort = "", reverse = false }) {
    Object.assign(this, { columns, key, sort, reverse });
    this.rows = new Map();
    this.body = h("tbody");
    this.heads = columns.map((column) => this.heading(column));
    const head = h("thead", null, h("tr", null, this.heads));
    fill(this, h("table", null, h("caption", { class: "unseen" }, caption), head, this.body));
    this.markSorted();
    return this;
  }

  heading(column) {
    const attributes = { scope: "col", class: column.number ? "number" : null };
    if (!column.sort)
      return h("th", attributes, column.title || h("span", { class: "unseen" }, column.label ?? "Actions"));
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" });
    return h(
      "th",
      attributes,
      h("button", { type: "button", onclick: () => this.sortBy(column.sort) }, column.title, arrow),
    );
  }

  sortBy(path) {
    this.reverse =
      this.sort === path ? !this.reverse : Boolean(this.columns.find((each) => each.sort === path)?.number);
    this.sort = path;
    this.markSorted();
    this.dispatchEvent(new CustomEvent("sort", { detail: { sort: this.sort, reverse: this.reverse } }));
  }

  markSorted() {
    this.columns.forEach((column, index) => {
      if (!column.sort) return;
      const value = column.sort !== this.sort ? "none" : this.reverse ? "descending" : "ascending";
      this.heads[index].setAttribute("aria-sort", value);
    });
  }

  show(items) {
    const old = this.rows;
    this.rows = new Map();
    for (const item of items) {
      const key = this.key(item);
      const row = old.get(key) ?? this.makeRow();
      old.delete(key);
      this.rows.set(key, row);
      this.update(row, item);
    }
    for (const row of old.values()) row.element.remove();
    let place = this.body.firstChild;
    for (const row of this.rows.values()) {
      // Moved only when it is not there already: moving an element takes the focus from it.
      if (row.element === place) place = place.nextSibling;
      else this.body.insertBefore(row.element, place);
    }
  }

  makeRow() {
    const cells = this.columns.map((column) =>
      h("td", { class: column.number ? "number" : null, "data-label": column.title || null }),
    );
    return { element: h("tr", null, cells), cells, signs: [], item: null };
  }

  update(row, item) {
    row.item = item;
    this.columns.forEach((column, index) => {
      const sign = column.sign?.(item);
      if (row.signs[index] !== undefined && sign === row.signs[index]) return;
      if (column.once && row.signs[index] !== undefined) return;
      const shown = column.show(item, row);
      if (shown instanceof Node) {
        fill(row.cells[index], shown);
        row.signs[index] = sign ?? "";
      } else setText(row.cells[index], shown);
    });
  }
}

customElements.define("warren-table", Table);

export function table(options) {
  return document.createElement("warren-table").setUp(options);
}
