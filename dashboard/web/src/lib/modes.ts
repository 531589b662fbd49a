import { get } from "./api.ts";
import type { Modes, Rulebook } from "./types.ts";

/** How all limits of the rules stand: asked for by domain, and those in words by their names. */
export async function modesOf(book: Rulebook, signal?: AbortSignal): Promise<Modes["limits"]> {
  const domains = [...new Set((book.rules ?? []).map((r) => r.domain))].filter(Boolean);
  const names = book.limits?.length ? [...new Set(book.limits.map(nameOf))] : [];
  const asked = [
    ...domains.map((domain) => get<Modes>("/v1/admin/modes", { domain }, signal)),
    ...names.map((limit) => get<Modes>("/v1/admin/modes", { limit }, signal)),
  ];
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

/** The name of a limit in words is the words themselves. */
function nameOf(words: string): string {
  return words;
}
