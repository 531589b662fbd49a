// Reads for how long a response asks to be left alone.
//
// Source: RFC 9110 §10.2.3 (Retry-After), RFC 9651 (structured fields),
// draft-ietf-httpapi-ratelimit-headers-11 (RateLimit) and -06 (RateLimit-Remaining, -Reset).

const MAX_FIELD = 8192; // characters of one field
const MAX_MEMBERS = 64;
const LARGEST = 999_999_999_999_999; // integer of a structured field

/**
 * waitOf returns for how many milliseconds a response asks to be left alone, and 0 if it does
 * not: Retry-After on a 429 or 503, and else the longest time of a limit that has nothing left.
 */
export function waitOf({ status, headers }, now = Date.now()) {
  if (status === 429 || status === 503) {
    const wait = retryAfter(headers, now);
    if (wait !== undefined) return wait;
  }
  if (!/^0*$/.test(headers.get("Age") ?? "")) return 0; // from a cache
  const wait = exhausted(headers.get("RateLimit") ?? "");
  if (wait > 0) return wait * 1000;
  return seconds(headers.get("RateLimit-Remaining")) === 0 ? (seconds(headers.get("RateLimit-Reset")) ?? 0) * 1000 : 0;
}

/** retryAfter returns milliseconds. A date counts from the response's own. */
function retryAfter(headers, now) {
  const s = seconds(headers.get("Retry-After"));
  if (s !== undefined) return s * 1000;
  const at = httpDate(headers.get("Retry-After"));
  return at === undefined ? undefined : Math.max(at - (httpDate(headers.get("Date")) ?? now), 0);
}

/** seconds reads digits; a number that is too large reads as the largest. */
function seconds(v) {
  if (!/^\d+$/.test(v ?? "")) return undefined;
  return Math.min(Number(v), LARGEST);
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

const STRING = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"';
const BARE = [
  "-?\\d{1,12}\\.\\d{1,3}", "-?\\d{1,15}", STRING, "[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*",
  ":[A-Za-z0-9+/]*={0,2}:", "\\?[01]", "@-?\\d{1,15}", '%"(?:[ !#$&-~]|%[0-9a-f]{2})*"',
].join("|");
const PARAMETER = `; *([a-z*][a-z0-9_.*-]*)(?:=(${BARE}))?`;
const MEMBER = new RegExp(`${STRING}((?:${PARAMETER})*)[ \\t]*(,[ \\t]*(?!$)|$)`, "y");

/**
 * exhausted returns the longest t of the limits of a RateLimit field whose r is 0, in seconds.
 * A field that is no list of Strings, each with an r, states nothing.
 */
function exhausted(field) {
  const text = field.replace(/^ +/, "");
  if (text === "" || field.length > MAX_FIELD) return 0;
  let longest = 0;
  MEMBER.lastIndex = 0;
  for (let n = 1; ; n++) {
    const member = MEMBER.exec(text);
    if (member === null || n > MAX_MEMBERS) return 0;
    const params = new Map();
    for (const [, key, value] of member[1].matchAll(new RegExp(PARAMETER, "g"))) {
      if (!isBytesOrText(value ?? "")) return 0;
      params.set(key, /^-?\d+$/.test(value ?? "") ? Number(value) : NaN);
    }
    const [r, t] = [params.get("r"), params.get("t") ?? 0];
    if (!(r >= 0) || !(t >= 0)) return 0;
    if (r === 0) longest = Math.max(longest, t);
    if (MEMBER.lastIndex === text.length) return longest;
  }
}

/** isBytesOrText is false of a byte sequence that is no base64, and of a display string that is not UTF-8. */
function isBytesOrText(value) {
  if (value.startsWith(":")) return value.slice(1, -1).replace(/=+$/, "").length % 4 !== 1;
  if (!value.startsWith("%")) return true;
  try {
    decodeURIComponent(value.slice(2, -1));
    return true;
  } catch {
    return false;
  }
}
