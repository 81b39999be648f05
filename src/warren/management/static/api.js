// The only way to the broker: questions to /api within a session, refusals as errors in words.

// What changes need beside the session's cookie; null while nobody is logged in.
let csrfToken = null;

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
  const sign = path.includes("?") ? "&" : "?";
  return given.length ? `${path}${sign}${new URLSearchParams(given)}` : path;
}

export const get = (path, signal) => ask("GET", path, undefined, { signal });
export const put = (path, body) => ask("PUT", path, body);
export const post = (path, body) => ask("POST", path, body);
export const remove = (path, headers) => ask("DELETE", path, undefined, { headers });

export async function ask(method, path, body, { signal, headers = {} } = {}) {
  let response = await send(method, path, body, signal, headers);
  // Somebody logged in anew in another tab: the cookie is another one, and so is its token.
  if (response.status === 403 && csrfToken !== null && (await resume()) !== null) {
    response = await send(method, path, body, signal, headers);
  }
  const text = await response.text();
  if (!response.ok) {
    const reason = reasonIn(text) || `the broker answered ${response.status}`;
    if (response.status === 401 && reason === "Login failed") forget();
    throw new Refused(response.status, reason);
  }
  return text === "" ? null : JSON.parse(text);
}

async function send(method, path, body, signal, headers) {
  // Without this header a refusal would make the browser ask for a password in a window of its own.
  const all = { ...headers, "x-requested-with": "XMLHttpRequest" };
  if (method !== "GET" && csrfToken !== null) all["x-csrf-token"] = csrfToken;
  if (body !== undefined) all["content-type"] = "application/json";
  try {
    const content = body === undefined ? undefined : JSON.stringify(body);
    return await fetch(path, {
      method,
      headers: all,
      body: content,
      signal,
      credentials: "same-origin",
      cache: "no-store",
    });
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

// Resolves to {name, tags} or throws. The browser keeps the session's cookie where no script can read it.
export async function logIn(username, password) {
  return begin(await post("/api/login", { username, password }));
}

// The session that the browser still has, or null.
export async function resume() {
  const response = await send("GET", "/api/login", undefined, undefined, {});
  return response.ok ? begin(await response.json()) : null;
}

function begin({ csrf_token: token, ...user }) {
  csrfToken = token;
  return user;
}

export async function logOut() {
  await post("/api/logout");
  end("");
}

// Nobody was logged in when a login itself is refused: then the form says so, and nothing ends.
function forget() {
  if (csrfToken !== null) end("The session has ended. Log in again.");
}

function end(words) {
  csrfToken = null;
  document.dispatchEvent(new CustomEvent("logged-out", { detail: words }));
}
