import { waitOf } from "./fields.js";
import { later, MAX_TIMEOUT, now } from "./pauses.js";

const words = {
  wait: (s) => `Available again in ${duration(s)}`,
  free: () => "Available again",
};

/** duration writes whole seconds as people do. */
function duration(s) {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/**
 * throttle makes a button wait as answers say. While it waits it cannot be
 * pressed, by mouse, keyboard or the form that it submits, and the time that is
 * left stands beside it.
 *
 * The button keeps the focus and can be reached by Tab: it is aria-disabled and
 * not disabled, for a button that loses the focus loses whoever works by keyboard.
 * Screen readers are told when it starts to wait and when it is free, and not
 * every second; the time that is left is the button's description.
 */
export function throttle(button, action, { jitter = 0.25, text = {}, status } = {}) {
  const say = { ...words, ...text };
  const doc = button.ownerDocument;
  const clock = doc.createElement("span"); // what is seen
  clock.className = "weir-wait";
  clock.id = `weir-wait-${++made}`;
  clock.hidden = true;
  const live = status ?? doc.createElement("span"); // what is heard
  if (!status) {
    live.className = "weir-status";
    live.setAttribute("role", "status");
    live.setAttribute("aria-live", "polite");
    // Out of sight, and there for screen readers.
    live.style.cssText = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap";
    button.after(live);
  }
  button.after(clock);

  const before = { disabled: button.getAttribute("aria-disabled"), described: button.getAttribute("aria-describedby") };
  let until = 0;
  let timer;
  let busy = false;

  /** left returns how many milliseconds the button waits yet. */
  const left = () => Math.max(until - now(), 0);

  function show() {
    clearTimeout(timer);
    const ms = left();
    if (ms === 0) {
      free(true);
      return;
    }
    const s = Math.ceil(ms / 1000);
    clock.textContent = say.wait(s);
    // When the next second begins.
    timer = setTimeout(show, Math.min(ms - (s - 1) * 1000, MAX_TIMEOUT));
  }

  function free(tell) {
    clearTimeout(timer);
    const waited = until > 0;
    until = 0;
    clock.hidden = true;
    clock.textContent = "";
    restore("aria-disabled", before.disabled);
    restore("aria-describedby", before.described);
    if (tell && waited) live.textContent = say.free();
  }

  function restore(name, value) {
    if (value === null) button.removeAttribute(name);
    else button.setAttribute(name, value);
  }

  const handle = {
    /** waiting: the button cannot be pressed. */
    get waiting() {
      return left() > 0;
    },
    /** retryAfter is how many milliseconds it waits yet. */
    get retryAfter() {
      return left();
    },
    /** hold makes the button wait for ms at least. */
    hold(ms) {
      if (!(ms > 0)) return;
      const end = now() + later(ms, jitter);
      if (end <= until) return;
      const first = until === 0;
      until = end;
      button.setAttribute("aria-disabled", "true");
      button.setAttribute("aria-describedby", [before.described, clock.id].filter(Boolean).join(" "));
      clock.hidden = false;
      show();
      if (first) live.textContent = clock.textContent;
    },
    /** heed makes the button wait as an answer says, and returns for how long. */
    heed(response) {
      const wait = waitOf(response);
      handle.hold(wait);
      return wait;
    },
    /** release ends the waiting. */
    release() {
      free(true);
    },
    /** destroy leaves the button as it was. */
    destroy() {
      free(false);
      button.removeEventListener("click", press, true);
      doc.removeEventListener("submit", submit, true);
      doc.removeEventListener("visibilitychange", wake);
      clock.remove();
      if (!status) live.remove();
    },
  };

  function stop(event) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  /** press: Enter and Space arrive as clicks too. */
  function press(event) {
    if (handle.waiting || busy || before.disabled === "true") return stop(event);
    if (!action) return;
    event.preventDefault(); // a form would leave the page
    run(event);
  }

  async function run(event) {
    busy = true;
    button.setAttribute("aria-busy", "true");
    try {
      const response = await action(event);
      if (response?.headers) handle.heed(response);
    } catch (err) {
      if (err?.name !== "LimitedError") throw err;
      handle.hold(err.retryAfter);
    } finally {
      busy = false;
      button.removeAttribute("aria-busy");
    }
  }

  /** submit: Enter in a field submits a form without a press. */
  function submit(event) {
    if (event.target === button.form && (event.submitter === button || event.submitter === null) && handle.waiting) stop(event);
  }

  /** wake: browsers let the timers of hidden pages sleep. */
  function wake() {
    if (!doc.hidden && until > 0) show();
  }

  button.addEventListener("click", press, true);
  doc.addEventListener("submit", submit, true);
  doc.addEventListener("visibilitychange", wake);
  return handle;
}

let made = 0;
