// What the broker did in the last ten minutes, gathered second by second while somebody is logged in. Rates come from
// counters of two neighbouring answers, so a chart shows the last second and not an average of five.

import { get } from "./api.js";
import { Poller } from "./poll.js";
import { isMonitoring } from "./session.js";

const KEPT_SECONDS = 600;

export class Series {
  constructor(names) {
    this.names = names;
    this.clear();
  }

  clear() {
    this.times = [];
    this.values = Object.fromEntries(this.names.map((name) => [name, []]));
  }

  add(time, values) {
    this.times.push(time);
    for (const name of this.names) this.values[name].push(values[name] ?? null);
    const old = this.times.findIndex((each) => each >= time - KEPT_SECONDS);
    if (old <= 0) return;
    this.times.splice(0, old);
    for (const name of this.names) this.values[name].splice(0, old);
  }

  last(name) {
    return this.values[name].at(-1);
  }
}

// Counters into rates: what was added since the last time, per second. Null at first and after a restart.
export class Growth {
  constructor() {
    this.before = null;
  }

  rates(time, counters) {
    const before = this.before;
    this.before = { time, counters: { ...counters } };
    const seconds = before === null ? 0 : time - before.time;
    const rates = {};
    for (const [name, value] of Object.entries(counters)) {
      const added = value - (before?.counters[name] ?? 0);
      rates[name] = seconds > 0 && added >= 0 ? added / seconds : null;
    }
    return rates;
  }
}

const NAMES = [
  "publish",
  "deliver",
  "ack",
  "redeliver",
  "ready",
  "unacked",
  "memory",
  "memoryLimit",
  "latency",
  "answer",
];

export class History extends EventTarget {
  constructor() {
    super();
    this.samples = 0;
    this.series = new Series(NAMES);
    this.overview = null;
    this.node = null;
    this.nodes = [];
    this.error = null;
    this.poller = new Poller(
      (signal) => this.ask(signal),
      (error) => this.fail(error),
    );
  }

  start() {
    this.series.clear();
    this.growth = new Growth();
    this.samples = 0;
    return this.poller.start();
  }

  stop() {
    this.poller.stop();
    this.overview = this.node = this.error = null;
  }

  async ask(signal) {
    const began = performance.now();
    const overview = await get("/api/overview", signal);
    const answer = performance.now() - began;
    this.nodes = isMonitoring() ? await get("/api/nodes", signal) : [];
    this.overview = overview;
    // In a cluster there are others beside the one that answers.
    this.node = this.nodes.find((node) => node.name === overview.node) ?? null;
    this.error = null;
    this.add(Date.now() / 1000, answer);
    this.dispatchEvent(new Event("change"));
  }

  add(now, answer) {
    const { message_stats: stats, queue_totals: totals, stream_totals: kept } = this.overview;
    const rates = this.growth.rates(now, {
      publish: stats.publish,
      deliver: stats.deliver_get,
      ack: stats.ack,
      redeliver: stats.redeliver,
    });
    this.series.add(now, {
      ...rates,
      ready: totals.messages_ready - kept.messages,
      unacked: totals.messages_unacknowledged,
      memory: this.node?.mem_used,
      memoryLimit: this.node?.mem_limit,
      latency: this.measured(this.overview.delivery_latency),
      answer,
    });
  }

  // The broker follows a message now and then. Where it has followed none to its end since the last time, the one that
  // still waits says that it takes at least so long.
  measured({ samples, last_ms, waiting_ms }) {
    const isNew = samples !== this.samples;
    this.samples = samples;
    return isNew ? last_ms : waiting_ms;
  }

  fail(error) {
    this.error = error;
    this.dispatchEvent(new Event("change"));
  }
}

// Of one queue, an estimate by Little's law: so many wait, so many leave per second, so long does one wait. Unknown while
// nothing leaves.
export function waitingTime(ready, leaving) {
  if (ready <= 0) return 0;
  return leaving > 0 ? (ready / leaving) * 1000 : null;
}

export const history = new History();
