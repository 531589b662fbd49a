import type { Coverage } from "./types.ts";

/** What the last answer says of decisions that are not counted yet. */
class Uncounted {
  now = $state.raw<Coverage["uncounted"]>();

  hear(answer: unknown): void {
    const coverage = (answer as { coverage?: Coverage } | undefined)?.coverage;
    if (coverage) this.now = coverage.uncounted;
  }
}

export const uncounted = new Uncounted();
