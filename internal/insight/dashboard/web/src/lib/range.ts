/** The range of time that the page is about. */

export const presets = [
  ["-15m", "15m", "the last 15 minutes"],
  ["-1h", "1h", "the last hour"],
  ["-6h", "6h", "the last 6 hours"],
  ["-24h", "24h", "the last 24 hours"],
  ["-7d", "7d", "the last 7 days"],
  ["-30d", "30d", "the last 30 days"],
] as const;

export const usual = "-1h";

const unit: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** An instant, in milliseconds: RFC 3339, Unix seconds, or relative to now. */
export function instant(text: string, now: number): number | undefined {
  const relative = /^-(\d+)([smhd])$/.exec(text);
  if (relative) return now - Number(relative[1]) * unit[relative[2]!]! * 1000;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}

export interface Range {
  from: number;
  to: number;
}

/** The range of two parameters; what cannot be read is the last hour. */
export function range(from: string, to: string, now: number): Range {
  const end = (to && instant(to, now)) || now;
  const begin = instant(from || usual, now) ?? end - 3600_000;
  return begin < end ? { from: begin, to: end } : { from: end - 3600_000, to: end };
}

/** An instant as a parameter: whole seconds. */
export function asParam(ms: number): string {
  return new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000Z", "Z");
}
