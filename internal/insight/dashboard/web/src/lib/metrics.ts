/** Reads samples of Prometheus's text format: name, labels, value. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parse(text: string, wanted: (name: string) => boolean): Sample[] {
  const out: Sample[] = [];
  for (const row of text.split("\n")) {
    if (!row || row.startsWith("#")) continue;
    const m = line.exec(row);
    if (!m || !wanted(m[1]!)) continue;
    const labels: Record<string, string> = {};
    for (const l of (m[2] ?? "").matchAll(label)) labels[l[1]!] = l[2]!.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
    out.push({ name: m[1]!, labels, value: Number(m[3]) });
  }
  return out;
}

/** The upper bound of the bucket of a histogram that holds the share q of what was seen, in the metric's unit. */
export function quantile(samples: Sample[], name: string, q: number): number | undefined {
  const sums = new Map<number, number>();
  for (const s of samples) {
    if (s.name !== `${name}_bucket`) continue;
    const le = s.labels.le === "+Inf" ? Infinity : Number(s.labels.le);
    sums.set(le, (sums.get(le) ?? 0) + s.value);
  }
  const bounds = [...sums.keys()].sort((a, b) => a - b);
  const total = sums.get(Infinity) ?? 0;
  if (!total) return undefined;
  return bounds.find((b) => sums.get(b)! >= q * total);
}

export function sum(samples: Sample[], name: string): number | undefined {
  const found = samples.filter((s) => s.name === name);
  return found.length ? found.reduce((n, s) => n + s.value, 0) : undefined;
}
