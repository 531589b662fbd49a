import type { Entry } from "./types.ts";

/** What an operator is about to do. */
export type Verb = "ban" | "unban" | "allow" | "disallow" | "override" | "restore" | "grant" | "reset" | "mode" | "label";

export interface Wish {
  verb: Verb;
  domain: string;
  rule: string;
  limit: string;
  /** The key as events tell it; hashed unless plain. */
  key?: string;
  plain?: boolean;
  /** The entries that name the key, if they are known. */
  entries?: Entry[];
  mode?: "shadow" | "enforce" | "off" | "none";
  percent?: number;
  label?: string;
  allowance?: number;
  period?: string;
}

class Actions {
  wish = $state.raw<Wish | undefined>();
  private from: HTMLElement | null = null;

  ask(wish: Wish): void {
    this.from = document.activeElement as HTMLElement | null;
    this.wish = wish;
  }

  /** Ends the dialog; the focus goes back to where it came from. */
  close(): void {
    this.wish = undefined;
    if (this.from?.isConnected) this.from.focus();
  }
}

export const actions = new Actions();

/** The last key of the words of a rule: what its clients are named by. */
export function entryKey(rule: string): string {
  const last = rule.split("/").at(-1) ?? rule;
  return last.split("=")[0] ?? last;
}

/** Entries as a command line writes them: key=value, one a line. */
export function writeEntries(entries: Entry[]): string {
  return entries.map((e) => `${e.key}=${e.value}`).join("\n");
}

export function readEntries(text: string): Entry[] | undefined {
  const out: Entry[] = [];
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) return undefined;
    out.push({ key: line.slice(0, at).trim(), value: line.slice(at + 1) });
  }
  return out.length ? out : undefined;
}
