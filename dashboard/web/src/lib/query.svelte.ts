import { ApiError } from "./api.ts";
import { clock } from "./clock.svelte.ts";

/** What a page asked for: the last answer stays while the next one is on its way. */
export class Query<T> {
  data = $state.raw<T | undefined>();
  error = $state.raw<ApiError | undefined>();
  loading = $state(true);
  private under?: AbortController;

  /**
   * Asks whenever what ask reads changes, and when the clock says to refresh.
   * ask returns undefined when there is nothing to ask for.
   */
  constructor(ask: (signal: AbortSignal) => Promise<T> | undefined) {
    $effect(() => {
      void clock.turn;
      this.under?.abort();
      const under = new AbortController();
      this.under = under;
      const answer = ask(under.signal);
      if (!answer) {
        this.data = undefined;
        this.error = undefined;
        this.loading = false;
        return;
      }
      this.loading = true;
      answer.then(
        (data) => {
          if (under.signal.aborted) return;
          this.data = data;
          this.error = undefined;
          this.loading = false;
        },
        (err: unknown) => {
          if (under.signal.aborted) return;
          this.error = err instanceof ApiError ? err : new ApiError(0, String(err));
          this.loading = false;
        },
      );
      return () => under.abort();
    });
  }
}
