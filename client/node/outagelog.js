/** How long after a warning no other is logged: a service that answers now and then must not fill the log. */
const BETWEEN_WARNINGS = 60_000;

/** OutageLog says when to log that checks are decided without the service. */
export class OutageLog {
  #open = false; // that it began was logged, and that it ended was not
  #until = -Infinity; // no warning is logged before

  /** begin returns whether to log that a check is decided without the service. */
  begin(now) {
    if (this.#open || now < this.#until) return false;
    this.#until = now + BETWEEN_WARNINGS;
    return (this.#open = true);
  }

  /** end returns whether to log that the service answers again. */
  end() {
    const open = this.#open;
    this.#open = false;
    return open;
  }
}
