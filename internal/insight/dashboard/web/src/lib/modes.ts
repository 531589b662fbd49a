import { get, withQuery } from "./api.ts";
import type { Modes, Rulebook } from "./types.ts";

/** The addresses of how all limits of the rules stand, one a line: by domain, and those in words by their names. */
export function modesQuestion(book: Rulebook): string {
  const domains = [...new Set((book.rules ?? []).map((r) => r.domain))].filter(Boolean);
  // A limit in words is called by its words.
  const names = [...new Set(book.limits ?? [])];
  return [...domains.map((domain) => withQuery("/v1/admin/modes", { domain })), ...names.map((limit) => withQuery("/v1/admin/modes", { limit }))].join("\n");
}

/** How the limits stand that a modesQuestion is about. */
export async function modesOf(question: string, signal: AbortSignal): Promise<Modes["limits"]> {
  const asked = question.split("\n").filter(Boolean).map((address) => get<Modes>(address, undefined, signal));
  const seen = new Set<string>();
  const out: Modes["limits"] = [];
  for (const answer of await Promise.all(asked)) {
    for (const l of answer.limits) {
      const id = `${l.domain}\n${l.rule}\n${l.limit}`;
      if (!seen.has(id)) out.push(l);
      seen.add(id);
    }
  }
  return out;
}

interface Named {
  domain: string;
  rule: string;
  limit: string;
}

/** Whether a mode is that of a limit as events call it: a limit in words has its words for a rule where modes are told. */
export function isOf(mode: Named, limit: Named): boolean {
  return mode.domain === limit.domain && mode.limit === limit.limit && (mode.rule === limit.rule || mode.rule === mode.limit);
}
