/** Outcomes as they are stacked, from the bottom, with the name of their colour. */
export const stacked = [
  ["allowed", "--allowed"],
  ["soft", "--soft"],
  ["borrowed", "--borrowed"],
  ["delayed", "--delayed"],
  ["shadow_refused", "--shadow"],
  ["refused", "--refused"],
] as const;

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
  never_decisive: "info",
  too_tight: "bad",
  too_loose: "warn",
  flapping: "warn",
};

/** The look of a badge for a word of a verdict, a label or a rule. */
export function kind(word: string): string {
  return kinds[word] ?? kinds[word.replaceAll(" ", "_")] ?? kinds[word.replaceAll("-", "_")] ?? "";
}
