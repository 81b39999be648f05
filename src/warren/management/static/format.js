// Numbers, sizes, times and arguments as people read them.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function number(value) {
  return typeof value === "number" ? whole.format(value) : "–";
}

// For tiles and axes, where room is short.
export function compact(value) {
  if (typeof value !== "number") return "–";
  return Math.abs(value) < 10000 ? whole.format(Math.round(value * 10) / 10) : short.format(value);
}

export function rate(value) {
  return typeof value === "number"
    ? `${value < 10 ? whole.format(Math.round(value * 10) / 10) : compact(Math.round(value))}/s`
    : "–";
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function milliseconds(value) {
  if (typeof value !== "number") return "–";
  if (value === 0) return "0 ms";
  if (value < 1) return `${Math.round(value * 1000)} µs`;
  if (value < 1000) return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
  return duration(value);
}

// The same for axes and tiles: one unit, however long.
export function shortTime(value) {
  if (typeof value !== "number" || value < 1000) return milliseconds(value);
  if (value < 60000) return `${compact(value / 1000)} s`;
  return value < 3600000 ? `${compact(value / 60000)} min` : `${compact(value / 3600000)} h`;
}

export function duration(value) {
  const seconds = Math.floor(value / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function time(value) {
  return clock.format(new Date(value));
}

export function moment(value) {
  return day.format(new Date(value));
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function exchangeName(name) {
  return name === "" ? "(default)" : name;
}

// An argument's or header's value: text as it is, all else as JSON.
export function plain(value) {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

// What fits in a table's cell or a drawing.
// "topic exchange"; the long names of other types say enough alone.
export function exchangeKind(type) {
  return type.startsWith("x-") ? type : `${type} exchange`;
}

export function cut(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
