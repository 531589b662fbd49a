/** When the page asks again. */
class Clock {
  /** Grows as time passes while the page is live. */
  turn = $state(0);
  /** Grows when somebody asks for it, or has changed something. */
  wish = $state(0);
  now = $state(Date.now());

  /** Time has passed: what is still being asked is not asked again. */
  tick(): void {
    this.now = Date.now();
    this.turn++;
  }

  /** Everything is asked again, what is being asked when its answer is there. */
  refresh(): void {
    this.now = Date.now();
    this.wish++;
  }
}

export const clock = new Clock();

/** How often figures are asked for again while the page is live, in milliseconds. */
export const every = 10_000;
