// The only way to the broker: questions to /api with the login that is held in memory, refusals as errors in words.

let authorization = null;
let isIn = false;

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

// The broker could not be asked at all.
export class Unreachable extends Error {}

// at("queues", vhost, name) is /api/queues/<vhost>/<name>, each part encoded: a virtual host is often "/".
export function at(...parts) {
  if (parts.some((part) => part === "." || part === "..")) {
    throw new Refused(400, "browsers cannot send the names . and .. in a path: use the warren command for this one");
  }
  return `/api/${parts.map(encodeURIComponent).join("/")}`;
}

export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const get = (path, signal) => ask("GET", path, undefined, { signal });
export const put = (path, body) => ask("PUT", path, body);
export const post = (path, body) => ask("POST", path, body);
export const remove = (path, headers) => ask("DELETE", path, undefined, { headers });

export async function ask(method, path, body, { signal, headers = {} } = {}) {
  const response = await send(method, path, body, signal, headers);
  const text = await response.text();
  if (!response.ok) {
    if (response.status === 401 && isIn && reasonIn(text) === "Login failed") forget();
    throw new Refused(response.status, reasonIn(text) || `the broker answered ${response.status}`);
  }
  return text === "" ? null : JSON.parse(text);
}

async function send(method, path, body, signal, headers) {
  const all = { ...headers };
  if (authorization !== null) all.authorization = authorization;
  if (body !== undefined) all["content-type"] = "application/json";
  try {
    const content = body === undefined ? undefined : JSON.stringify(body);
    return await fetch(path, { method, headers: all, body: content, signal, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The broker does not answer.");
  }
}

function reasonIn(text) {
  try {
    const { error, reason } = JSON.parse(text);
    return typeof reason === "string" ? reason : reason ? JSON.stringify(reason) : error;
  } catch {
    return "";
  }
}

// Resolves to {name, tags} or throws. The password is kept in this variable alone: a reload asks for it again.
export async function logIn(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  try {
    const user = await get("/api/whoami");
    isIn = true;
    return user;
  } catch (error) {
    authorization = null;
    throw error;
  }
}

function forget() {
  authorization = null;
  isIn = false;
  document.dispatchEvent(new CustomEvent("logged-out", { detail: "The login is no longer valid." }));
}

export function logOut() {
  authorization = null;
  isIn = false;
  document.dispatchEvent(new CustomEvent("logged-out", { detail: "" }));
}
