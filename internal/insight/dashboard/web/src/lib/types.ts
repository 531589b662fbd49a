// The answers that the page reads, as docs/reference/analytics.md and docs/reference/http-api.md say.
// Times are RFC 3339.

export interface Loss {
  dropped: number;
  discarded: number;
  rollups: number;
  failed: number;
  late: number;
}

export interface Coverage {
  from: string;
  to: string;
  grain: string;
  step_s: number;
  basis: string;
  /** How many keys there are for each one whose allowed decisions are recorded; 0: none. */
  sample_one_in: number;
  /** From when on decisions are not counted yet. */
  uncounted?: { since: string; reason: string };
  loss: Loss;
  missing?: string[];
}

export interface Limit {
  domain: string;
  rule: string;
  limit: string;
  algorithm: string;
  allowance: number;
  period_ms: number;
  burst: number;
}

export interface Totals {
  decisions: number;
  counts: Record<string, number> | null;
  refused_share: number;
  delayed_share: number;
  shadow_share: number;
}

export interface TopKey {
  domain: string;
  rule: string;
  limit: string;
  key: string;
  unhashed: boolean;
  refused: number;
  shadow_refused: number;
  delayed: number;
}

export interface TopWord {
  value: string;
  refused: number;
  shadow_refused: number;
  delayed: number;
  allowed: number;
}

export interface Incident extends Limit {
  from: string;
  to: string;
  open: boolean;
  refused: number;
  shadow_refused: number;
  delayed: number;
  keys: number;
  overshoot: number;
}

/** Requests, each counted once however many limits it met. */
export interface Requests {
  requests: number;
  refused: number;
  failed: number;
  refused_share: number;
}

export interface Overview {
  coverage: Coverage;
  totals: Totals;
  /** Absent where requests are not kept by what is filtered by. */
  requests?: Requests;
  keys_limited: number;
  keys_seen: number;
  /** Whether keys_seen is known: it is estimated from sampled keys, of which there may be none. */
  keys_seen_known: boolean;
  degraded_s: number;
  latency?: Latency;
  top_rules: (Limit & Totals)[] | null;
  top_keys: TopKey[] | null;
  top_paths: TopWord[] | null;
  incidents: Incident[] | null;
}

/** How long decisions took, of one in every. Times in microseconds. */
export interface Latency {
  measured: number;
  sample_one_in: number;
  p50_us: number;
  p95_us: number;
  p99_us: number;
  max_us: number;
}

export interface LatencySeries {
  coverage: Coverage;
  latency?: Latency;
  at: string[] | null;
  measured: number[] | null;
  /** -1 where none was measured. */
  p50_us: number[] | null;
  p99_us: number[] | null;
}

export interface Replayed {
  admitted: number;
  refused: number;
  delayed: number;
  longest_delay_ms: number;
  keys_refused: number;
}

export interface Replay {
  coverage: Coverage;
  limit: Limit;
  edited_limit: Limit;
  unsupported_reason?: string;
  first?: string;
  last?: string;
  keys: number;
  decisions: number;
  truncated: boolean;
  recorded: Replayed;
  current: Replayed;
  edited: Replayed;
  newly_refused: { decisions: number; keys: number };
  newly_admitted: { decisions: number; keys: number };
  at: string[] | null;
  arrivals: number[] | null;
  current_refused: number[] | null;
  edited_refused: number[] | null;
  clients: { key: string; decisions: number; recorded_refused: number; current_refused: number; edited_refused: number }[] | null;
}

export interface Line {
  name: string;
  rest?: boolean;
  total: number;
  points: number[] | null;
}

export interface Series {
  coverage: Coverage;
  by: string;
  at: string[] | null;
  lines: Line[] | null;
  degraded_at: boolean[] | null;
}

export interface Top {
  coverage: Coverage;
  by: string;
  values: TopWord[] | null;
}

export interface Usage {
  keys: number;
  p50: number;
  p95: number;
  p99: number;
  max: number;
}

export interface Advice {
  kind: string;
  text: string;
  allowance?: number;
  burst?: number;
}

export interface RuleFigures extends Limit, Totals {
  versions: number;
  decided: number;
  keys_limited: number;
  keys_seen: number;
  keys_seen_known: boolean;
  usage?: Usage;
  first_hit?: string;
  last_hit?: string;
  last_refused?: string;
  judged?: { clients: number; verdicts: Record<string, number> | null; refused_shares: Record<string, number> | null };
  badges?: string[];
  advice?: Advice[];
  /** Why there is no advice. */
  no_advice_reason?: string;
}

export interface RuleList {
  coverage: Coverage;
  rules: RuleFigures[] | null;
}

export interface Version extends Limit, Totals {
  from: string;
  to: string;
  keys_limited: number;
  usage?: Usage;
}

export interface RuleLimits extends RuleFigures {
  at: string[] | null;
  lines: Line[] | null;
  busiest_second: number[] | null;
  busiest_minute: number[] | null;
  per_minute: number;
  histogram: number[] | null;
  history: Version[] | null;
}

export interface RuleDetail {
  coverage: Coverage;
  limits: RuleLimits[] | null;
}

export interface RateClient {
  key: string;
  unhashed: boolean;
  weight: number;
  peak: number;
  mean: number;
  windows: number;
  units: number;
  requests: number;
  refused: number;
  user: boolean;
  tier?: string;
  verdict?: string;
}

export interface RateBucket {
  rate: number;
  windows: number;
  units: number;
}

export interface PeakBucket {
  peak: number;
  clients: number;
  users: number;
}

export interface Rung {
  limit: number;
  clients: number;
  users: number;
  units: number;
  share: number;
}

export interface Rates {
  coverage: Coverage;
  limit: Limit;
  window_ms: number;
  estimated: boolean;
  clients: number;
  units: number;
  rows: number;
  top: RateClient[] | null;
  percentiles: { p: number; peak: number }[] | null;
  buckets: RateBucket[] | null;
  peaks: PeakBucket[] | null;
  ladder: Rung[] | null;
}

export interface About {
  address?: string;
  network?: string;
  method?: string;
  host?: string;
  path?: string;
  user?: string;
  tier?: string;
  agent?: string;
  users?: number;
  agents?: number;
  paths?: number;
  addresses?: number;
}

export interface Answers {
  count?: number;
  ok?: number;
  redirect?: number;
  denied?: number;
  client_error?: number;
  server_error?: number;
  total_ms?: number;
  longest_ms?: number;
}

export interface Verdict {
  class: string;
  /** high, medium or low; none of undecided. */
  confidence: string;
  reasons: string[] | null;
  against?: string[];
  missing?: string[];
}

export interface Client extends Limit, Totals {
  key: string;
  unhashed: boolean;
  allowed_known: boolean;
  sampled: boolean;
  decided: number;
  units: number;
  first: string;
  last: string;
  first_seen: string;
  peak_second: number;
  peak_minute: number;
  overshoot: number;
  windows: number;
  windows_over: number;
  early_retries: number;
  retry_after_obeyed: number;
  retry_ms: number;
  delay_ms: number;
  min_remaining: number;
  degraded: boolean;
  source: string;
  client_info?: About;
  responses?: Answers;
  usual: number;
  usual_hours: number;
  now: number;
  verdict?: Verdict;
}

export interface ClientList {
  coverage: Coverage;
  total: number;
  clients: Client[] | null;
  rest?: { rows: number } & Totals;
}

export interface ClientDetail {
  coverage: Coverage;
  key: string;
  limits: (Client & { at: string[] | null; lines: Line[] | null; units_at: number[] | null; busiest: number[] | null })[] | null;
}

export interface Compared {
  algorithm: string;
  in_use: boolean;
  /** Why it cannot keep the limit; then the rest is zero. */
  unsupported_reason?: string;
  admitted: number;
  refused: number;
  delayed: number;
  longest_delay_ms: number;
  false_allow: number;
  false_deny: number;
  overshoot: number;
  boundary: number;
  peak_to_mean_admitted: number;
  bytes_per_key: number;
  operations: number;
}

export interface Accuracy extends Limit {
  keys: number;
  decisions: number;
  truncated: boolean;
  reference: string;
  false_allow: number;
  false_deny: number;
  false_allowed: number;
  false_denied: number;
  overshoot: number;
  worst: number;
  boundary: number;
  peak_to_mean: number;
  peak_to_mean_admitted: number;
  compare: Compared[] | null;
}

export interface AccuracyList {
  coverage: Coverage;
  rules: Accuracy[] | null;
}

export interface Upstream {
  coverage: Coverage;
  at: string[] | null;
  admitted: number[] | null;
  refused: number[] | null;
  limit: Limit;
  responses: Answers[] | null;
  mean_ms: number[] | null;
  p50_ms: number[] | null;
  p99_ms: number[] | null;
  total: Answers;
  response_times: { measured: number; p50_ms: number; p95_ms: number; p99_ms: number };
}

export interface System {
  at: string;
  database: string;
  bytes: number;
  schema: number;
  sources:
    | {
        node: string;
        region?: string;
        source: string;
        first: string;
        last: string;
        events: number;
        missing_events: number;
        loss: { dropped: number; discarded: number; rollups: number; failed: number };
      }[]
    | null;
  tables: { name: string; grain?: string; rows: number; retention_s: number; oldest?: string }[] | null;
  service: {
    started: string;
    batches: number;
    transactions: number;
    events: number;
    duplicates: number;
    late: number;
    rejected: number;
    retries: number;
    failing?: string;
    waiting: number;
    lag_ms: number;
    longest_lag_ms: number;
  };
}

export interface Words {
  coverage: Coverage;
  limits: Limit[] | null;
  domains: string[] | null;
  rules: string[] | null;
  algorithms: string[] | null;
  outcomes: string[] | null;
  nodes: string[] | null;
  regions: string[] | null;
  tiers: string[] | null;
  paths: string[] | null;
}

/** /rules: which rules are in use. */
/** An attempt to read the rules files. */
export interface Reload {
  at: string;
  by: "start" | "signal" | "files";
  number: number;
  generation: number;
  rules: number;
  error?: string;
  removed?: string[];
  added?: string[];
  omitted?: number;
}

export interface RulesStatus {
  generation: number;
  loaded_at: string;
  hash: string;
  files: string[] | null;
  rules: number;
  successes: number;
  failures?: number;
  last_error?: string;
  reloads?: Reload[];
  [more: string]: unknown;
}

export interface Entry {
  key: string;
  value: string;
}

/** What an operator decided about one key: a ban, an override, or that it always passes. */
export interface OverlayView {
  kind: string;
  domain: string;
  entries: Entry[] | null;
  limit: string;
  key: string;
  rate?: string;
  burst?: number;
  until: string | null;
  made: string;
  by: string;
  reason?: string;
  yaml: string;
}

/** A mode that an operator gave a limit. */
export interface SwitchView {
  domain: string;
  rule: string;
  limit: string;
  mode: string;
  percent: number | null;
  /** The mode by the rules; null while they have no such limit. */
  rules: string | null;
  until: string | null;
  made: string;
  by: string;
  reason: string;
  yaml: string;
}

/** /v1/admin/modes: how limits stand. */
export interface Modes {
  limits: {
    domain: string;
    rule: string;
    limit: string;
    mode: string;
    percent: number;
    rules: string;
    changed: SwitchView | null;
    counts: Record<string, number>;
  }[];
  pending: SwitchView[];
}

/** /v1/admin/audit: what operators changed. */
export interface Change {
  number: number | null;
  id: string;
  at: string;
  node: string;
  by: string;
  reason: string;
  action: string;
  domain?: string;
  rule?: string;
  entries?: Entry[];
  limit?: string;
  before: string;
  after: string;
  yaml: string;
}

export interface Audit {
  changes: Change[];
  before: number | null;
}

export interface DescribedRule {
  domain: string;
  rule: string;
  file: string;
  line: number;
  /** False: no route, and nothing else that this node serves, sends what the rule is matched by. */
  asked: boolean;
  limits: string[] | null;
  tier_by?: string;
  tiers?: { value: string; limits: string[] }[];
  overrides?: { value: string; limits: string[] }[];
}

/** /v1/rules: every compiled rule. */
export interface Rulebook {
  limits: string[] | null;
  rules: DescribedRule[] | null;
  overlay: OverlayView[] | null;
  modes?: SwitchView[] | null;
}

/** What a limit of a decision says over HTTP: seconds, null for never. */
export interface ToldLimit {
  limit: { name: string; count: number; burst: number; period: number; algorithm: string };
  role: string;
  key?: string;
  cost: number;
  allowed: boolean;
  charged: boolean;
  remaining: number;
  retry_after: number | null;
  reset_after: number | null;
}

/** What a decision promises: docs/reference/http-api.md. */
export interface Guarantee {
  exact: boolean;
  /** The most that any period sees admitted; null where no number holds. */
  at_most: number | null;
  over_admit: number | null;
  envelope: number | null;
  source: string;
  degraded: boolean;
}

/** /v1/explain: what a check would answer, and why. */
export interface Explanation {
  decision: {
    allowed: boolean;
    soft: boolean;
    borrowed: boolean;
    delay: number;
    /** Refused by a ban or a deny list: until retry_after, or without an end where that is null. */
    banned?: boolean;
    limit?: { name: string; algorithm: string };
    remaining: number;
    retry_after: number | null;
    reset_after: number | null;
    guarantee?: Guarantee;
  };
  counters: ToldLimit[] | null;
  overlay?: OverlayView[] | null;
  modes?: SwitchView[] | null;
  rules?: {
    limits?: string[];
    domain?: string;
    domain_known?: boolean;
    listed?: { entry: Entry; list: string };
    descriptors?: {
      entries: Entry[] | null;
      levels: { entry: Entry; match: string; rule?: string; reason: string }[] | null;
      outcome: string;
      reason: string;
      rule?: string;
      file?: string;
      line?: number;
      limits?: { name: string; limit: string; scope: string; key: string; cost: number; role: string }[];
      replaced?: string[];
    }[];
  };
}

export interface Build {
  version: string;
  revision?: string;
  go: string;
  platform: string;
}
