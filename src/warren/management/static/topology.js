// What is drawn of a virtual host: exchanges, queues, and the ways between them; as nodes and edges, without a picture.

import { at, get, withQuery } from "./api.js";
import { compact, exchangeKind, rate } from "./format.js";

// More cannot be taken in by eye, nor laid out while somebody waits.
export const DRAWN_MAX = 120;
const QUEUES_ASKED = 500;

export async function loadTopology(vhost, signal) {
  const columns = "name,messages,arguments,effective_policy_definition";
  const queues = withQuery(at("queues", vhost), {
    page: 1,
    page_size: QUEUES_ASKED,
    sort: "messages",
    sort_reverse: "true",
    columns,
  });
  const paths = [at("exchanges", vhost), at("bindings", vhost), queues, at("policies", vhost)];
  const [exchanges, bindings, { items, total_count: total }, policies] = await Promise.all(
    paths.map((path) => get(path, signal)),
  );
  return { vhost, exchanges, bindings, queues: items, queueCount: total, policies };
}

// {nodes, edges, left: how many bound ones are not drawn, loose: how many queues only the default exchange reaches}
export function topologyOf({ vhost, exchanges, bindings, queues, queueCount, policies }, filter) {
  const edges = merged([
    ...bindings.filter((each) => each.source !== "").map(bindingEdge),
    ...queues.flatMap(deadLetterEdges),
    ...exchanges.flatMap((exchange) => alternateEdges(exchange, policies)),
  ]);
  const shown = edges.filter((edge) => filter === "" || [edge.from, edge.to].some((id) => nameOf(id).includes(filter)));
  const ids = new Set(shown.flatMap((edge) => [edge.from, edge.to]));
  for (const { name } of exchanges) if (isOwn(name) && (filter === "" || name.includes(filter))) ids.add(`e:${name}`);
  const drawn = new Set([...ids].slice(0, DRAWN_MAX));
  const facts = {
    vhost,
    exchanges: new Map(exchanges.map((each) => [each.name, each])),
    queues: new Map(queues.map((each) => [each.name, each])),
  };
  const bound = new Set(
    [...edges.map((edge) => edge.from), ...edges.map((edge) => edge.to)].filter((id) => id.startsWith("q:")),
  );
  return {
    nodes: [...drawn].map((id) => nodeOf(id, facts)),
    edges: shown.filter((edge) => drawn.has(edge.from) && drawn.has(edge.to)),
    left: ids.size - drawn.size,
    loose: Math.max(0, queueCount - bound.size),
  };
}

const nameOf = (id) => id.slice(2);
// Those that every virtual host is born with are drawn only when something is bound to them.
const isOwn = (name) => name !== "" && !name.startsWith("amq.");

function bindingEdge({ source, destination, destination_type: type, routing_key: key }) {
  return { from: `e:${source}`, to: `${type === "queue" ? "q" : "e"}:${destination}`, kind: "binding", keys: [key] };
}

function deadLetterEdges({ name, arguments: given, effective_policy_definition: policy }) {
  const setting = (key) => given[`x-${key}`] ?? policy?.[key];
  const exchange = setting("dead-letter-exchange");
  if (typeof exchange !== "string") return [];
  const key = setting("dead-letter-routing-key") ?? "";
  // Through the default exchange a dead letter goes straight to the queue that its key names.
  const to = exchange === "" ? `q:${key || name}` : `e:${exchange}`;
  return [{ from: `q:${name}`, to, kind: "dead", keys: [exchange === "" ? "" : key] }];
}

function alternateEdges({ name, arguments: given, policy }, policies) {
  const fromPolicy = policies.find((each) => each.name === policy)?.definition["alternate-exchange"];
  const exchange = given["alternate-exchange"] ?? fromPolicy;
  return typeof exchange === "string" && exchange !== ""
    ? [{ from: `e:${name}`, to: `e:${exchange}`, kind: "alternate", keys: [""] }]
    : [];
}

// Many bindings between the same two are one line with several keys.
function merged(edges) {
  const found = new Map();
  for (const edge of edges) {
    const id = JSON.stringify([edge.from, edge.to, edge.kind]);
    if (found.has(id)) found.get(id).keys.push(...edge.keys);
    else found.set(id, edge);
  }
  return [...found.values()];
}

function nodeOf(id, { vhost, exchanges, queues }) {
  const name = nameOf(id);
  if (id.startsWith("q:")) {
    const messages = queues.get(name)?.messages;
    const note = messages === undefined ? "queue" : `${compact(messages)} in queue`;
    return { id, kind: "queue", name, note, href: addressOf("queues", vhost, name) };
  }
  const exchange = exchanges.get(name);
  if (exchange === undefined) return { id, kind: "missing", name, note: "exchange is not there", href: null };
  const speed = exchange.message_stats?.publish_in_details.rate;
  const note = speed ? `${exchangeKind(exchange.type)} · ${rate(speed)}` : exchangeKind(exchange.type);
  return { id, kind: "exchange", name, note, href: addressOf("exchanges", vhost, name) };
}

function addressOf(view, vhost, name) {
  return `#/${view}/${encodeURIComponent(vhost)}/${encodeURIComponent(name)}`;
}
