// <warren-listing>: one list of the API, kept fresh: filter, sortable table, pages. The broker filters, sorts and cuts,
// so that ten thousand queues cost the page no more than fifty.

import { get, withQuery } from "../api.js";
import { fill, h, newId, setText } from "../dom.js";
import { number, plural } from "../format.js";
import { Poller, Polling } from "../poll.js";
import { listOf } from "../session.js";
import { notice } from "./notice.js";
import { table } from "./table.js";

const PAGE_SIZE = 50;
const TYPING_MS = 150;

class Listing extends Polling {
  // `noun` is what one item is called; path() is asked each time; `empty` is said, or made, when there is none.
  setUp({ noun, nouns = `${noun}s`, columns, sort, reverse, filterable = true, onItems, ...more }) {
    const { path = () => listOf(nouns), empty = `There are no ${nouns}.` } = more;
    Object.assign(this, { path, noun, nouns, empty, onItems, page: 1, filter: "" });
    const caption = nouns[0].toUpperCase() + nouns.slice(1);
    const key = ({ user, vhost, exchange, name }) => JSON.stringify([user, vhost, exchange, name]);
    this.table = table({ caption, columns, key, sort, reverse });
    this.table.addEventListener("sort", () => this.again(1));
    this.count = h("p", { class: "count", role: "status" });
    this.nothing = h("div", { class: "empty", hidden: true });
    this.problem = notice();
    this.pages = this.makePages();
    const toolbar = h("div", { class: "toolbar", hidden: !filterable }, filterable && this.makeFilter(), this.count);
    fill(this, toolbar, this.problem, this.table, this.nothing, this.pages);
    this.poller = new Poller(
      (signal) => this.load(signal),
      (error) => this.fail(error),
    );
    return this;
  }

  makeFilter() {
    const id = newId("filter");
    let timer = null;
    const typed = (event) => {
      this.filter = event.target.value;
      clearTimeout(timer);
      timer = setTimeout(() => this.again(1), TYPING_MS);
    };
    const input = h("input", {
      id,
      type: "search",
      placeholder: "Part of the name",
      oninput: typed,
      autocomplete: "off",
    });
    return h("div", { class: "filter" }, h("label", { for: id }, "Filter"), input);
  }

  makePages() {
    this.previous = h("button", { type: "button", onclick: () => this.again(this.page - 1) }, "Previous");
    this.next = h("button", { type: "button", onclick: () => this.again(this.page + 1) }, "Next");
    this.place = h("span");
    return h(
      "nav",
      { class: "pages", "aria-label": `Pages of ${this.nouns}`, hidden: true },
      this.previous,
      this.place,
      this.next,
    );
  }

  again(page = this.page) {
    this.page = page;
    return this.poller.now();
  }

  async load(signal) {
    const { sort, reverse } = this.table;
    const query = {
      page: this.page,
      page_size: PAGE_SIZE,
      name: this.filter,
      sort,
      sort_reverse: reverse ? "true" : "",
    };
    try {
      this.show(await get(withQuery(this.path(), query), signal));
    } catch (error) {
      // The page that was looked at is gone: items were deleted, or the filter leaves fewer.
      if (this.page === 1 || !error.message.startsWith("Page out of range")) throw error;
      this.page = 1;
      await this.load(signal);
    }
  }

  show(answer) {
    const { items, filtered_count: found, total_count: total, page, page_count: pages } = answer;
    this.problem.clear();
    this.table.show(items);
    this.table.hidden = items.length === 0;
    setText(
      this.count,
      this.filter === ""
        ? plural(total, this.noun, this.nouns)
        : `${number(found)} of ${plural(total, this.noun, this.nouns)}`,
    );
    this.showEmpty(items.length === 0, total);
    this.pages.hidden = pages <= 1;
    setText(this.place, `Page ${number(page)} of ${number(pages)}`);
    this.previous.disabled = page <= 1;
    this.next.disabled = page >= pages;
    this.onItems?.(items);
  }

  showEmpty(isEmpty, total) {
    this.nothing.hidden = !isEmpty;
    if (!isEmpty) return;
    const text = total > 0 ? `No ${this.noun} has “${this.filter}” in its name.` : this.empty;
    if (this.said === text) return;
    this.said = text;
    fill(this.nothing, h("p", null, text));
  }

  fail(error) {
    this.problem.say(`${error.message} What is shown may be old; trying again.`);
  }
}

customElements.define("warren-listing", Listing);

export function listing(options) {
  return document.createElement("warren-listing").setUp(options);
}
