import type { Guarantee } from "./types.ts";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const some = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** A whole number in full. */
export function count(n: number | undefined): string {
  return n === undefined || Number.isNaN(n) ? "–" : whole.format(n);
}

/** So many of a thing: "1 client", "1,200 clients". */
export function plural(n: number, one: string, many = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A number in few characters, for axes and tight places. */
export function short(n: number | undefined): string {
  if (n === undefined || Number.isNaN(n)) return "–";
  return Math.abs(n) < 10_000 ? (Number.isInteger(n) ? whole.format(n) : some.format(n)) : compact.format(n);
}

/** A share of 0 to 1 as a percentage; small ones keep two digits. */
export function percent(share: number | undefined): string {
  if (share === undefined || Number.isNaN(share)) return "–";
  const p = share * 100;
  if (p === 0) return "0 %";
  if (p < 0.01) return "<0.01 %";
  return (p < 1000 ? String(Number(p.toPrecision(p < 1 ? 2 : 3))) : whole.format(p)) + " %";
}

/** A multiple, as of an overshoot. */
export function times(n: number | undefined): string {
  return n === undefined || Number.isNaN(n) || n === 0 ? "–" : (n < 10 ? n.toFixed(2) : whole.format(n)) + "×";
}

/** A length of time in milliseconds. */
export function duration(ms: number | undefined): string {
  if (ms === undefined || Number.isNaN(ms)) return "–";
  if (ms === 0) return "0 s";
  if (ms < 1000) return `${some.format(ms)} ms`;
  const s = ms / 1000;
  if (s < 120) return `${some.format(s)} s`;
  if (s < 7200) return `${some.format(s / 60)} min`;
  if (s < 172800) return `${some.format(s / 3600)} h`;
  return `${some.format(s / 86400)} d`;
}

/** A length of time in microseconds. */
export function micros(us: number | undefined): string {
  if (us === undefined || Number.isNaN(us)) return "–";
  if (us < 1) return `${some.format(us * 1000)} ns`;
  return us < 1000 ? `${some.format(us)} µs` : duration(us / 1000);
}

const periods: [number, string][] = [
  [1000, "second"],
  [60_000, "minute"],
  [3600_000, "hour"],
  [86400_000, "day"],
];

/** A period as rules write it: "minute", "10 s". */
export function period(ms: number): string {
  return periods.find(([n]) => n === ms)?.[1] ?? duration(ms);
}

/** What a limit allows: "100/minute". */
export function rate(l: { allowance: number; period_ms: number; algorithm: string }): string {
  return l.algorithm === "concurrency" ? `${count(l.allowance)} at once` : `${count(l.allowance)}/${period(l.period_ms)}`;
}

export function bytes(n: number): string {
  for (const [size, name] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]] as const) {
    if (n >= size) return `${some.format(n / size)} ${name}`;
  }
  return `${whole.format(n)} B`;
}

/** A time of day, with the date if it is not today's. */
export function when(at: string | number | undefined | null, utc: boolean, now = Date.now()): string {
  if (at === undefined || at === null || at === "") return "–";
  const d = new Date(at);
  if (Number.isNaN(d.getTime()) || d.getTime() <= 0) return "–";
  const zone = utc ? "UTC" : undefined;
  const day = (x: Date) => x.toLocaleDateString("en-CA", { timeZone: zone });
  const time = d.toLocaleTimeString("en-GB", { timeZone: zone });
  return day(d) === day(new Date(now)) ? time : `${day(d)} ${time}`;
}

/** Date and time in full. */
export function stamp(at: string | number, utc: boolean): string {
  const zone = utc ? "UTC" : undefined;
  const d = new Date(at);
  return `${d.toLocaleDateString("en-CA", { timeZone: zone })} ${d.toLocaleTimeString("en-GB", { timeZone: zone })}${utc ? " UTC" : ""}`;
}

/** How long ago. */
export function ago(at: string | undefined, now: number): string {
  if (!at) return "never";
  const ms = now - Date.parse(at);
  return ms < 0 ? "now" : `${duration(Math.round(ms / 1000) * 1000)} ago`;
}

/** A key as it fits into a table: hashes are cut in the middle. */
export function keyText(key: string, plain: boolean): string {
  if (!key) return "(one for all)";
  if (!plain && key.length > 14) return key.slice(0, 10) + "…";
  return key.length > 40 ? key.slice(0, 38) + "…" : key;
}

const words: Record<string, string> = {
  allowed: "Allowed",
  refused: "Refused",
  delayed: "Delayed",
  soft: "Soft",
  borrowed: "Borrowed",
  shadow_refused: "Would refuse (shadow)",
  estimated: "Estimated",
  degraded: "Degraded",
  failed: "Not decided",
};

export function outcome(word: string): string {
  return words[word] ?? word;
}

/** A word of a program as words of a sentence. */
export function spaced(word: string): string {
  return word.replaceAll("_", " ");
}

/** What a decision promises under a limit, in a sentence. */
export function guarantee(g: Guarantee, limit?: { algorithm: string; period: number }): string {
  if (g.degraded) return `Degraded: without the guarantee that the limit usually gives${g.at_most === null ? "" : `, at most ${count(g.at_most)}`}.`;
  const span = !limit ? "" : limit.algorithm === "concurrency" ? " at once" : ` in any ${period(limit.period * 1000)}`;
  const most = g.at_most === null ? "no number bounds what passes" : `at most ${count(g.at_most)}${span}`;
  const said = g.exact ? `Exact: ${most}` : most[0]!.toUpperCase() + most.slice(1);
  return `${said}, decided from the ${spaced(g.source)}.`;
}

/** How many clients were seen, under how many were limited. */
export function keysSeen(k: { keys_seen: number; keys_seen_known: boolean }): string {
  return k.keys_seen_known ? `of about ${count(k.keys_seen)} seen` : "how many were seen is not known";
}

/** A rate in requests a second. */
export function perSecond(n: number): string {
  return n < 1000 ? some.format(n) : short(n);
}
