// Reads what an answer says about limits.
//
// Source: RFC 9110 §10.2.3 (Retry-After), RFC 9651 (structured fields),
// draft-ietf-httpapi-ratelimit-headers-11 (RateLimit, RateLimit-Policy; the
// syntax is that of drafts 08 to 11), -06 (RateLimit-Limit, -Remaining, -Reset).

// Caps on what an answer may make a page read.
const MAX_FIELD = 8192; // characters of one field
const MAX_MEMBERS = 64;
const LARGEST = 999_999_999_999_999; // integer of a structured field

/**
 * limitsOf returns what an answer says of the limits that it met, the one with
 * the least left first. It is empty if the answer says nothing, or came from a
 * cache. Fields that are malformed say nothing.
 */
export function limitsOf(response, now = Date.now()) {
  const h = response.headers;
  if (isFromCache(h)) return [];
  const found = fromLists(h) ?? fromEarlierDrafts(h) ?? fromX(h, now) ?? [];
  return found.sort((a, b) => share(a) - share(b));
}

/** share is how much is left of a limit; of those with nothing, the longest first. */
function share({ remaining, quota, resetAfter = 0 }) {
  if (remaining === 0) return -1 - resetAfter;
  return quota > 0 ? remaining / quota : 1;
}

/**
 * waitOf returns for how many milliseconds an answer asks to be left alone, and
 * 0 if it does not: Retry-After on a 429 or 503, else the longest time of a limit
 * that has nothing left, else that of the fields of earlier drafts.
 */
export function waitOf(response, now = Date.now()) {
  const h = response.headers;
  if (response.status === 429 || response.status === 503) {
    const wait = retryAfter(h, now);
    if (wait !== undefined) return wait;
  }
  return (longest(limitsOf(response, now)) || longest((!isFromCache(h) && fromEarlierDrafts(h)) || [])) * 1000;
}

/** longest returns the longest time of limits that have nothing left, in seconds. */
const longest = (limits) => Math.max(0, ...limits.filter((l) => l.remaining === 0).map((l) => l.resetAfter ?? 0));

/** isFromCache: what a cache answers says nothing about now. */
const isFromCache = (h) => !/^0*$/.test(h.get("Age") ?? "");

/** retryAfter returns milliseconds. A date counts from the answer's own Date. */
function retryAfter(h, now) {
  for (const name of ["Retry-After", "X-RateLimit-Retry-After"]) {
    const v = h.get(name);
    if (v === null) continue;
    const s = seconds(v);
    if (s !== undefined) return s * 1000;
    const at = httpDate(v);
    if (at === undefined) continue;
    return Math.max(at - (httpDate(h.get("Date")) ?? now), 0);
  }
  return undefined;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const [MONTH, TIME] = [`(?<month>${MONTHS.join("|")})`, "(?<time>\\d{2}:\\d{2}:\\d{2})"];

/** The three forms of a date, RFC 9110 §5.6.7. */
const DATES = [
  `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\\d{2}) ${MONTH} (?<year>\\d{4}) ${TIME} GMT`,
  `(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\\d{2})-${MONTH}-(?<year>\\d{2}) ${TIME} GMT`, // RFC 850
  `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ${MONTH} (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})`, // asctime
].map((form) => new RegExp(`^${form}$`));

/** httpDate returns milliseconds since the epoch. Date.parse takes much else. */
function httpDate(v) {
  for (const form of DATES) {
    const m = form.exec(v ?? "")?.groups;
    if (!m) continue;
    const year = m.year.length === 4 ? m.year : (m.year < "69" ? "20" : "19") + m.year; // as Go and POSIX read it
    const month = String(MONTHS.indexOf(m.month) + 1).padStart(2, "0");
    const iso = `${year}-${month}-${m.day.replace(" ", "0")}T${m.time}.000Z`;
    const at = new Date(iso);
    return !Number.isNaN(at.getTime()) && at.toISOString() === iso ? at.getTime() : undefined; // else 31 February
  }
  return undefined;
}

/** seconds reads digits; a number that is too large reads as the largest. */
function seconds(v) {
  if (v === null || !/^\d+$/.test(v)) return undefined;
  return v.length > 15 ? LARGEST : Number(v);
}

function fromLists(h) {
  const state = list(h.get("RateLimit"));
  if (state === undefined) return undefined;
  const policies = new Map();
  for (const p of list(h.get("RateLimit-Policy")) ?? []) policies.set(p.name, p.params);
  const out = [];
  for (const { name, params } of state) {
    const r = params.get("r");
    const t = params.get("t");
    if (!(r >= 0) || (params.has("t") && !(t >= 0))) return undefined;
    const policy = policies.get(name);
    out.push(prune({ name, remaining: r, resetAfter: t, quota: natural(policy?.get("q")), window: natural(policy?.get("w")) }));
  }
  return out;
}

const natural = (n) => (n >= 0 ? n : undefined);

function fromEarlierDrafts(h) {
  const remaining = seconds(h.get("RateLimit-Remaining"));
  if (remaining === undefined) return undefined;
  return [prune({ name: "", remaining, resetAfter: seconds(h.get("RateLimit-Reset")), quota: seconds(h.get("RateLimit-Limit")) })];
}

/** fromX reads fields that no document defines; see resetOf. */
function fromX(h, now) {
  const remaining = seconds(h.get("X-RateLimit-Remaining"));
  if (remaining === undefined) return undefined;
  return [prune({ name: "", remaining, resetAfter: resetOf(h.get("X-RateLimit-Reset"), now), quota: seconds(h.get("X-RateLimit-Limit")) })];
}

/**
 * resetOf returns seconds from now, for whatever form a service writes: seconds
 * from now, seconds or milliseconds since the epoch, or a date. They cannot be
 * mistaken: 31 years of seconds have not passed, and will not be waited for.
 */
function resetOf(v, now) {
  if (v === null) return undefined;
  const n = seconds(v);
  if (n !== undefined) {
    if (n >= 1e12) return Math.max(Math.ceil((n - now) / 1000), 0);
    if (n >= 1e9) return Math.max(Math.ceil(n - now / 1000), 0);
    return n;
  }
  const at = httpDate(v) ?? (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(v) ? Date.parse(v) : NaN);
  return Number.isNaN(at) ? undefined : Math.max(Math.ceil((at - now) / 1000), 0);
}

function prune(o) {
  for (const k of Object.keys(o)) if (o[k] === undefined) delete o[k];
  return o;
}

/**
 * list reads a List whose members are Strings with parameters, and returns
 * undefined for anything else. Of a parameter the last counts; one that is no
 * integer is NaN.
 */
function list(text) {
  if (text === null || text === "" || text.length > MAX_FIELD) return undefined;
  const p = { s: text, i: 0 };
  const out = [];
  skip(p, " ");
  while (p.i < text.length) {
    if (out.length === MAX_MEMBERS) return undefined;
    const name = string(p);
    const params = name === undefined ? undefined : parameters(p);
    if (params === undefined) return undefined;
    out.push({ name, params });
    skip(p, " \t");
    if (p.i === text.length) return out;
    if (text[p.i++] !== ",") return undefined;
    skip(p, " \t");
    if (p.i === text.length) return undefined; // a comma at the end
  }
  return out.length ? out : undefined;
}

function skip(p, chars) {
  while (p.i < p.s.length && chars.includes(p.s[p.i])) p.i++;
}

/** match reads what a sticky expression matches. */
function match(p, re) {
  re.lastIndex = p.i;
  const m = re.exec(p.s);
  if (m === null) return undefined;
  p.i = re.lastIndex;
  return m[0];
}

function string(p) {
  const raw = match(p, /"(?:[ !#-[\]-~]|\\["\\])*"/y);
  return raw?.slice(1, -1).replace(/\\(.)/g, "$1");
}

function parameters(p) {
  const out = new Map();
  while (p.s[p.i] === ";") {
    p.i++;
    skip(p, " ");
    const key = match(p, /[a-z*][a-z0-9_.*-]*/y);
    if (key === undefined) return undefined;
    let value = NaN; // true
    if (p.s[p.i] === "=") {
      p.i++;
      value = bare(p);
      if (value === undefined) return undefined;
    }
    out.set(key, value);
  }
  return out;
}

/** bare reads a bare item: the value of an Integer, NaN for another. */
function bare(p) {
  const number = match(p, /-?\d+(?:\.\d*)?/y);
  if (number !== undefined) {
    const [whole, fraction] = number.replace("-", "").split(".");
    if (fraction === undefined) return whole.length > 15 ? undefined : Number(number);
    return whole.length > 12 || fraction.length === 0 || fraction.length > 3 ? undefined : NaN;
  }
  if (p.s[p.i] === ":") return bytes(p);
  if (p.s[p.i] === "%") return display(p);
  if (match(p, /"(?:[ !#-[\]-~]|\\["\\])*"/y) !== undefined) return NaN;
  if (match(p, /[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*/y) !== undefined) return NaN;
  if (match(p, /\?[01]/y) !== undefined) return NaN;
  const date = match(p, /@-?\d{1,15}(?![\d.])/y);
  return date === undefined ? undefined : NaN;
}

function bytes(p) {
  const raw = match(p, /:[A-Za-z0-9+/]*={0,2}:/y);
  if (raw === undefined) return undefined;
  return raw.slice(1, -1).replace(/=+$/, "").length % 4 === 1 ? undefined : NaN;
}

function display(p) {
  const raw = match(p, /%"(?:[ !#$&-~]|%[0-9a-f]{2})*"/y);
  if (raw === undefined) return undefined;
  try {
    decodeURIComponent(raw.slice(2, -1));
    return NaN;
  } catch {
    return undefined; // not UTF-8
  }
}
