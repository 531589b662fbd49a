export type Choice = "auto" | "light" | "dark";

const place = "weir-theme";

/** Dark or light: as the system has it, unless somebody chose. */
class Theme {
  choice = $state<Choice>("auto");
  dark = $state(false);

  constructor() {
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const kept = this.kept();
    if (kept === "light" || kept === "dark") this.choice = kept;
    const apply = () => {
      this.dark = this.choice === "dark" || (this.choice === "auto" && system.matches);
      document.documentElement.dataset.theme = this.dark ? "dark" : "light";
    };
    system.addEventListener("change", apply);
    this.apply = apply;
    apply();
  }

  private apply: () => void;

  private kept(): string | null {
    try {
      return localStorage.getItem(place);
    } catch {
      return null; // a browser that keeps nothing: the system's choice holds
    }
  }

  choose(choice: Choice): void {
    this.choice = choice;
    this.apply();
    try {
      localStorage.setItem(place, choice);
    } catch {
      // Then the choice holds until the page is left.
    }
  }
}

export const theme = new Theme();
