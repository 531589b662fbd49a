/** When the page asks again. */
class Clock {
  /** Grows with each refresh. */
  turn = $state(0);
  now = $state(Date.now());

  refresh(): void {
    this.now = Date.now();
    this.turn++;
  }
}

export const clock = new Clock();

/** How often figures are asked for again while the page is live, in milliseconds. */
export const every = 10_000;
