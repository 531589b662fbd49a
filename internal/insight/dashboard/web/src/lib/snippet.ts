import { segments } from "./actions.svelte.ts";
import type { DescribedRule, Limit } from "./types.ts";

const names: [number, string][] = [[1000, "second"], [60_000, "minute"], [3600_000, "hour"], [86400_000, "day"]];
const units: [number, string][] = [[86400_000, "d"], [3600_000, "h"], [60_000, "m"], [1000, "s"], [1, "ms"]];

/** A period as rules files have it: minute, 150s. */
export function rulePeriod(ms: number): string {
  const name = names.find(([n]) => n === ms)?.[1];
  if (name) return name;
  const [n, unit] = units.find(([n]) => ms % n === 0) ?? [1, "ms"];
  return `${Math.round(ms / n)}${unit}`;
}

/** Text in quotes for YAML, which refuses some characters that JSON has as they are. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** A word of YAML, quoted where it could be read as something else. */
function word(text: string): string {
  return /^[a-z_][\w-]*$/i.test(text) && !/^(true|false|yes|no|on|off|null|y|n)$/i.test(text) ? text : quoted(text);
}

/** Where a rule has a limit: in a list of its own, of a tier or of an override. */
function placeOf(rule: DescribedRule | undefined, limit: string) {
  const holds = (list: string[] | null) => (list ?? []).some((l) => l.endsWith(`(${limit})`));
  const tier = rule?.tiers?.find((t) => holds(t.limits));
  const override = rule?.overrides?.find((o) => holds(o.limits));
  const list = tier?.limits ?? override?.limits ?? rule?.limits ?? [];
  return { tier: tier?.value, override: override?.value, several: list.length > 1 };
}

/** The lines of a rules file that give a limit its numbers, under the keys that lead to it. */
export function snippet(limit: Limit, mode: { mode: string; percent: number } | undefined, rule: DescribedRule | undefined): string {
  const place = placeOf(rule, limit.limit);
  const own = limit.limit !== limit.rule && !limit.limit.startsWith(limit.rule + "[") && rule !== undefined;
  const waits = limit.algorithm === "concurrency";
  const settings: string[] = [
    ...(own ? [`name: ${word(limit.limit)}`] : []),
    `limit: ${waits ? limit.allowance : `${limit.allowance}/${rulePeriod(limit.period_ms)}`}`,
    `algorithm: ${limit.algorithm}`,
    ...(waits ? [`ttl: ${rulePeriod(limit.period_ms)}`] : []),
    ...(limit.burst && !waits ? [`burst: ${limit.burst}`] : []),
    ...(mode?.mode === "shadow" ? ["mode: shadow"] : mode?.mode === "enforce" && mode.percent < 100 ? [`rollout: ${mode.percent}%`] : []),
  ];
  const flow = `{${settings.join(", ")}}`;
  let lines = settings;
  if (place.tier !== undefined) lines = ["tiers:", `  by: ${word(rule?.tier_by ?? "")}`, "  limits:", `    ${quoted(place.tier)}: ${flow}`];
  if (place.override !== undefined) lines = [`overrides: {${quoted(place.override)}: ${flow}}`];
  for (const s of segments(limit.rule).toReversed()) {
    lines = [`- key: ${word(s.key)}`, ...(s.value === undefined ? [] : [`  value: ${quoted(s.value)}`]), ...lines.map((l) => "  " + l)];
    lines = ["descriptors:", ...lines.map((l) => "  " + l)];
  }
  return [
    `# ${rule ? `${rule.file}:${rule.line}, ` : ""}rule ${limit.rule}: its numbers; what else it says stays`,
    ...(place.several ? [`# the limit ${limit.limit} alone: leave the others beside it`] : []),
    `domain: ${word(limit.domain)}`,
    ...lines,
    "",
  ].join("\n");
}
