// The page's few icons, as paths on a grid of 24. They only repeat what a text beside them says.

import { svg } from "../dom.js";

const PATHS = {
  overview: ["M4 13l4-5 4 4 4-7 4 6", "M4 20h16"],
  queues: ["M4 6h16", "M4 12h16", "M4 18h10"],
  exchanges: [
    "M4 7h5l6 10h5",
    "M4 17h5l1.5-2.5",
    "M13.5 9.5L15 7h5",
    "M17.5 4.5L20 7l-2.5 2.5",
    "M17.5 14.5L20 17l-2.5 2.5",
  ],
  connections: ["M9 7V3", "M15 7V3", "M7 7h10v4a5 5 0 0 1-10 0z", "M12 16v5"],
  access: ["M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8z", "M4 21c0-4 3.5-6 8-6s8 2 8 6"],
  policies: ["M12 3l7 3v5c0 5-3 8.5-7 10-4-1.5-7-5-7-10V6z", "M9 12l2 2 4-4"],
  streams: ["M3 8c3-3 6 3 9 0s6-3 9 0", "M3 14c3-3 6 3 9 0s6-3 9 0", "M3 20c3-3 6 3 9 0s6-3 9 0"],
  pipelines: ["M3 7h4v10H3z", "M10 9h4v6h-4z", "M17 7h4v10h-4z", "M7 12h3", "M14 12h3"],
  definitions: ["M6 3h8l4 4v14H6z", "M14 3v4h4", "M9 13h6", "M9 17h6"],
  journey: [
    "M5 19a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
    "M19 9a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
    "M7 17h6a3 3 0 0 0 0-6h-2a3 3 0 0 1 0-6h6",
  ],
  more: ["M12 6h.01", "M12 12h.01", "M12 18h.01"],
  menu: ["M4 7h16", "M4 12h16", "M4 17h16"],
  light: [
    "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8z",
    "M12 2v3",
    "M12 19v3",
    "M2 12h3",
    "M19 12h3",
    "M5 5l2 2",
    "M17 17l2 2",
    "M5 19l2-2",
    "M17 7l2-2",
  ],
  dark: ["M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5z"],
};

export function icon(name) {
  const paths = PATHS[name].map((d) => svg("path", { d }));
  return svg(
    "svg",
    { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    paths,
  );
}
