// Asking again and again: about once a second while the tab can be seen, less often when answers take long.

const EVERY = 1000;
const AFTER_AN_ERROR = 3000;
// A page that is looked at may cost the broker a tenth of its time, not more: with 10,000 queues a list takes long.
const REST = 9;

export class Poller {
  // `task(signal)` is awaited; `onError(error)` hears of what it throws.
  constructor(task, onError) {
    this.task = task;
    this.onError = onError;
    this.timer = null;
    this.aborter = null;
    this.onVisibility = () => (document.hidden ? this.pause() : this.now());
  }

  start() {
    document.addEventListener("visibilitychange", this.onVisibility);
    return this.now();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.pause();
  }

  pause() {
    clearTimeout(this.timer);
    this.aborter?.abort();
    this.aborter = null;
  }

  // At once, in place of the question under way: after an action, or with another filter.
  async now() {
    this.pause();
    const aborter = (this.aborter = new AbortController());
    const began = performance.now();
    let rest = EVERY;
    try {
      await this.task(aborter.signal);
      rest = Math.max(EVERY, REST * (performance.now() - began));
    } catch (error) {
      if (aborter.signal.aborted) return;
      rest = AFTER_AN_ERROR;
      this.onError(error);
    }
    if (this.aborter === aborter && !document.hidden) this.timer = setTimeout(() => this.now(), rest);
  }
}

// An element with a `poller` that asks while it is on the page.
export class Polling extends HTMLElement {
  connectedCallback() {
    this.poller.start();
  }

  disconnectedCallback() {
    this.poller.stop();
  }
}
