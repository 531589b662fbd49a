import { untrack } from "svelte";

import { ApiError, get } from "./api.ts";
import { clock } from "./clock.svelte.ts";
import { uncounted } from "./uncounted.svelte.ts";

/** How long an answer to another question may be shown without a word, in milliseconds. */
const patience = 300;

/** How long a question is asked before it has failed, in milliseconds: the service answers within 30 seconds. */
const longest = 120_000;

/**
 * A question to the service and its last answer, which stays while the next one is on its
 * way. While a question is asked it is not asked again: a slow answer is drawn when it comes.
 * Another question ends it, so that its answer is never drawn over a newer one.
 */
export class Query<T> {
  data = $state.raw<T | undefined>();
  error = $state.raw<ApiError | undefined>();
  loading = $state(true);
  /** The data answers an earlier question, and the answer to this one takes its time. */
  outdated = $state(false);

  private load: (question: string, signal: AbortSignal) => Promise<T>;
  private asked = "";
  private answered = "";
  private request?: AbortController;
  private again = false;
  private timer?: ReturnType<typeof setTimeout>;

  /**
   * Asks whenever the question becomes another, and when the clock says so. A question is
   * the address of its answer, or what load makes an answer of; undefined asks nothing.
   */
  constructor(question: () => string | undefined, load?: (question: string, signal: AbortSignal) => Promise<T>) {
    this.load = load ?? ((address, signal) => get<T>(address, undefined, signal));
    const current = $derived(question());
    $effect(() => {
      const q = current;
      untrack(() => this.begin(q));
      return () => this.end();
    });
    let [turn, wish] = [clock.turn, clock.wish];
    $effect(() => {
      const wished = clock.wish !== wish;
      if (clock.turn === turn && !wished) return;
      [turn, wish] = [clock.turn, clock.wish];
      untrack(() => this.refresh(wished));
    });
  }

  private begin(question: string | undefined): void {
    this.again = false;
    this.error = undefined;
    if (question === undefined) {
      this.data = undefined;
      this.loading = false;
      return;
    }
    this.asked = question;
    if (this.data !== undefined && this.answered !== question) {
      this.timer = setTimeout(() => (this.outdated = true), patience);
    }
    this.ask();
  }

  private end(): void {
    clearTimeout(this.timer);
    this.outdated = false;
    this.request?.abort();
    this.request = undefined;
    this.asked = "";
  }

  private refresh(wished: boolean): void {
    if (!this.asked) return;
    // What is under way may be older than what was wished for; the clock comes again.
    if (this.request) this.again ||= wished;
    else this.ask();
  }

  private ask(): void {
    const request = new AbortController();
    this.request = request;
    this.loading = true;
    const question = this.asked;
    const done = (draw: () => void) => {
      if (this.request !== request) return;
      clearTimeout(this.timer);
      this.request = undefined;
      this.loading = false;
      this.outdated = false;
      draw();
      if (this.again) {
        this.again = false;
        this.ask();
      }
    };
    this.load(question, AbortSignal.any([request.signal, AbortSignal.timeout(longest)])).then(
      (data) =>
        done(() => {
          this.data = data;
          uncounted.hear(data);
          this.answered = question;
          this.error = undefined;
        }),
      (err: unknown) => done(() => (this.error = err instanceof ApiError ? err : new ApiError(0, String(err)))),
    );
  }
}
