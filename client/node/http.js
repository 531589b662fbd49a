import { RequestError, UnavailableError } from "./errors.js";
import { waitOf } from "./fields.js";

/** Sizes of responses, in bytes. */
export const MAX_RESPONSE = 1 << 20;
export const MAX_BATCH_RESPONSE = 32 << 20;
const MAX_PROBLEM = 64 << 10;

const CALLERS_FAULTS = new Set([400, 409, 410, 413, 421, 422, 501]);

/** baseOf returns the URL of a service without its last slash. */
export function baseOf(url) {
  let base;
  try {
    base = new URL(url);
  } catch {
    base = { protocol: "" };
  }
  if (!/^https?:$/.test(base.protocol) || base.search || base.hash || base.username || base.password) {
    throw new TypeError(`url ${JSON.stringify(String(url))}: write it as http://HOST:PORT`);
  }
  return base.href.replace(/\/+$/, "");
}

/**
 * ask makes one call and returns the JSON of its response. It throws a RequestError where the
 * caller is at fault, an UnavailableError where the service is, and signal's reason.
 */
export async function ask(send, url, headers, body, most, signal) {
  let response;
  try {
    // Not redirected: a redirect would repeat what must be asked once.
    response = await send(url, { method: "POST", headers, body: JSON.stringify(body), redirect: "manual", signal });
    if (response.status !== 200) throw await problemOf(response);
    const data = await read(response, most);
    if (data === undefined) throw new UnavailableError("failure", `the response has more than ${most} bytes`);
    return JSON.parse(data);
  } catch (err) {
    if (signal.aborted) throw signal.reason;
    if (err instanceof RequestError || err instanceof UnavailableError) throw err;
    const why = err instanceof SyntaxError ? `the response is not from Weir: ${err.message}` : `${err.message}${err.cause?.message ? `: ${err.cause.message}` : ""}`;
    throw new UnavailableError("failure", why, { cause: err });
  }
}

/** read returns the text of a response, and undefined for one of more than most bytes. */
async function read(response, most) {
  const parts = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > most) return undefined; // leaving the loop cancels the body
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** problemOf returns what a response that is no decision means. */
async function problemOf(response) {
  let detail = "";
  let problem;
  try {
    problem = JSON.parse((await read(response, MAX_PROBLEM)) ?? "null");
    detail = [problem?.detail, problem?.title].find((s) => typeof s === "string" && s !== "") ?? "";
  } catch (err) {
    if (!(err instanceof SyntaxError)) throw err; // what does not read is told by the status alone
  }
  const { status, headers } = response;
  detail ||= "the service answered";
  if (status === 429 || status === 503) {
    const wait = waitOf(response);
    if (wait > 0) {
      const busy = new UnavailableError("busy", `${detail}; it asks to be left alone for ${wait / 1000} s`);
      busy.retryAfter = wait;
      return busy;
    }
  } else if (CALLERS_FAULTS.has(status) && headers.get("Content-Type")?.startsWith("application/problem+json")) {
    return new RequestError(status, detail, problem ?? {});
  }
  return new UnavailableError("failure", `${detail} (status ${status})`);
}
