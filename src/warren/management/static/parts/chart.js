// <warren-chart>: lines over time, drawn by uPlot, with a legend that shows the latest values in words and figures.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { fill, h, setText } from "../dom.js";
import { time } from "../format.js";

const HEIGHT = 190;
const NARROWEST = 30;
// Lines that several views have.
export const TRAFFIC = [
  { name: "publish", label: "in", color: "--series-1" },
  { name: "deliver", label: "out", color: "--series-2" },
];
export const DEPTH = [
  { name: "ready", label: "ready", color: "--series-4" },
  { name: "unacked", label: "unacknowledged", color: "--series-5" },
];
const FONT = "11px Inter, system-ui, sans-serif";

class Chart extends HTMLElement {
  // lines: [{name, label, color: "--series-1", dash}], the first of them filled; `format` for the axis and the legend,
  // `seconds` shown.
  setUp({ title, about, lines, format, seconds = 300, minimum = 1, steps }) {
    Object.assign(this, { title_: title, lines, format, seconds, minimum, steps, plot: null });
    this.place = h("div", { class: "plot", "aria-hidden": "true" });
    this.values = lines.map(() => h("b"));
    const legend = lines.map((line, index) =>
      h(
        "li",
        null,
        h("i", { class: `key ${line.dash ? "dashed" : ""} ${line.color.slice(2)}` }),
        h("span", null, line.label),
        this.values[index],
      ),
    );
    fill(
      this,
      h("h2", null, title),
      about && h("p", { class: "about" }, about),
      h("ul", { class: "legend" }, legend),
      this.place,
    );
    this.onTheme = () => this.redraw();
    this.observer = new ResizeObserver(() => this.resize());
    return this;
  }

  connectedCallback() {
    document.addEventListener("theme", this.onTheme);
    this.observer.observe(this.place);
  }

  disconnectedCallback() {
    document.removeEventListener("theme", this.onTheme);
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  show(series) {
    this.series = series;
    this.lines.forEach((line, index) => {
      const value = series.last(line.name);
      setText(this.values[index], typeof value === "number" ? this.format(value) : "–");
    });
    if (!this.isConnected || this.place.clientWidth === 0) return;
    const data = [series.times, ...this.lines.map((line) => series.values[line.name])];
    if (this.plot === null) this.plot = new uPlot(this.options(), data, this.place);
    else this.plot.setData(data);
  }

  redraw() {
    this.plot?.destroy();
    this.plot = null;
    if (this.series) this.show(this.series);
  }

  resize() {
    if (this.plot === null) this.redraw();
    else if (this.plot.width !== this.place.clientWidth)
      this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
  }

  options() {
    const style = getComputedStyle(this);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: color("--muted"),
      font: FONT,
      grid: { stroke: color("--line"), width: 1 },
      ticks: { show: false },
    };
    return {
      width: this.place.clientWidth,
      height: HEIGHT,
      padding: [10, 24, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { range: () => this.span() },
        y: { range: (_, __, high) => [0, Math.max(high ?? 0, this.minimum) * 1.1] },
      },
      axes: [
        { ...axis, size: 28, space: 90, values: (_, marks) => marks.map((mark) => time(mark * 1000)) },
        {
          ...axis,
          size: 58,
          space: 36,
          incrs: this.steps,
          values: (_, marks) => marks.map((mark) => this.format(mark)),
        },
      ],
      series: [{}, ...this.lines.map((line, index) => lineOptions(line, color(line.color), index === 0))],
    };
  }

  span() {
    const last = this.series.times.at(-1) ?? Date.now() / 1000;
    const age = last - (this.series.times[0] ?? last);
    // As wide as there is something to see, but no narrower than half a minute.
    return [last - Math.min(this.seconds, Math.max(age, NARROWEST)), last];
  }
}

function lineOptions(line, stroke, isFilled) {
  return {
    label: line.label,
    stroke,
    width: line.dash ? 1.5 : 2,
    dash: line.dash ? [5, 5] : undefined,
    fill: isFilled ? `${stroke}22` : undefined,
    points: { show: false },
    spanGaps: false,
  };
}

customElements.define("warren-chart", Chart);

export function chart(options) {
  return document.createElement("warren-chart").setUp(options);
}
