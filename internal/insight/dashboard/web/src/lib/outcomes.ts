/** Outcomes as they are stacked, from the bottom, with the name of their colour. */
export const stacked = [
  ["allowed", "--allowed"],
  ["soft", "--soft"],
  ["borrowed", "--borrowed"],
  ["delayed", "--delayed"],
  ["shadow_refused", "--shadow"],
  ["refused", "--refused"],
] as const;

/** What became of requests, as it is stacked, with the name of its colour. */
export const requestColours = [
  ["allowed", "--allowed"],
  ["failed", "--grey"],
  ["refused", "--refused"],
] as const;

/** Limits of a node, those that refused most first. */
export function mostRefused<L extends { totals: Record<string, number> | null }>(limits: L[] | null): L[] {
  return (limits ?? []).toSorted((a, b) => (b.totals?.refused ?? 0) - (a.totals?.refused ?? 0));
}

export const colours: Record<string, string> = Object.fromEntries(stacked);

/** Colours of lines that have none of their own. */
export const palette = ["--allowed", "--delayed", "--shadow", "--soft", "--refused", "--borrowed", "--grey"];

const kinds: Record<string, string> = {
  legitimate: "good",
  likely_legitimate: "good",
  "likely legitimate": "good",
  shared: "info",
  shared_address: "info",
  "shared address": "info",
  runaway: "warn",
  runaway_client: "warn",
  "runaway client": "warn",
  abusive: "bad",
  never_hit: "info",
  never_decides: "info",
  too_tight: "bad",
  too_loose: "warn",
  flapping: "warn",
};

/** The look of a badge for a word of a verdict or a rule. */
export function kind(word: string): string {
  return kinds[word] ?? kinds[word.replaceAll(" ", "_")] ?? kinds[word.replaceAll("-", "_")] ?? "";
}
