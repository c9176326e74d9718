/** Fetches how runs compare with their baseline, run by run; only what changed, and no more than is looked at. */
import { type Api, ApiError, type CompareQuery, type Comparison, isAbort, type RunInfo } from "./api";
import { presentRoles } from "./chart/plan";
import { CHART_ROLES, type LoggedRole } from "./roles";
import { text } from "./text";

/** What is known of a run against its baseline; of another window or tolerance while the new one is on its way. */
export interface Compared {
  readonly key: string;
  readonly query: CompareQuery;
  readonly answer: Comparison | null;
  readonly problem: { readonly message: string; readonly hint: string; readonly passing: boolean } | null;
}

export interface Wanted {
  readonly query: CompareQuery;
  /** Another one where one of the two runs has grown. */
  readonly version: string;
}

export const keyOf = ({ query, version }: Wanted): string => `${JSON.stringify(query)} ${version}`;

const AT_ONCE = 2;
/** Answers that are kept for the way back. */
const MOST_KEPT = 60;

export class Comparisons {
  private readonly kept = new Map<string, Compared>();
  private readonly shown = new Map<string, Compared>();
  private readonly underway = new Map<string, AbortController>();
  private queue: { key: string; query: CompareQuery }[] = [];

  constructor(
    private readonly api: Pick<Api, "compare">,
    private readonly onChange: (shown: ReadonlyMap<string, Compared>) => void,
  ) {}

  /** From now on these are looked at. What failed for a passing reason is asked for again. */
  want(wanted: readonly Wanted[]): void {
    const keys = new Map(wanted.map((one) => [keyOf(one), one.query]));
    for (const [key, abort] of this.underway) {
      if (keys.has(key)) continue;
      abort.abort();
      this.underway.delete(key);
    }
    const runs = new Set(wanted.map(({ query }) => query.run));
    for (const run of [...this.shown.keys()]) if (!runs.has(run)) this.shown.delete(run);
    this.queue = [];
    for (const [key, query] of keys) {
      const known = this.kept.get(key);
      if (known && !known.problem?.passing) this.shown.set(query.run, known);
      else if (!this.underway.has(key)) this.queue.push({ key, query });
    }
    this.tell();
    this.next();
  }

  stop(): void {
    this.queue = [];
    for (const abort of this.underway.values()) abort.abort();
    this.underway.clear();
  }

  private next(): void {
    while (this.queue.length > 0 && this.underway.size < AT_ONCE) {
      const { key, query } = this.queue.shift()!;
      const abort = new AbortController();
      this.underway.set(key, abort);
      void this.ask(key, query, abort);
    }
  }

  private async ask(key: string, query: CompareQuery, abort: AbortController): Promise<void> {
    let found: Compared;
    try {
      found = { key, query, answer: await this.api.compare(query, abort.signal), problem: null };
    } catch (error) {
      if (isAbort(error) || abort.signal.aborted) return;
      found = { key, query, answer: null, problem: problemOf(error) };
    }
    if (abort.signal.aborted) return;
    this.underway.delete(key);
    this.keep(found);
    this.shown.set(query.run, this.bestOf(found));
    this.tell();
    this.next();
  }

  /** While the server is gone the last answer stays. */
  private bestOf(found: Compared): Compared {
    const before = this.shown.get(found.query.run);
    const stays = found.problem?.passing && before?.answer && isAbout(before, found.query);
    return stays ? { ...before, key: found.key } : found;
  }

  private keep(found: Compared): void {
    this.kept.delete(found.key);
    this.kept.set(found.key, found);
    for (const key of this.kept.keys()) {
      if (this.kept.size <= MOST_KEPT) break;
      this.kept.delete(key);
    }
  }

  private tell(): void {
    this.onChange(new Map(this.shown));
  }
}

function problemOf(error: unknown): NonNullable<Compared["problem"]> {
  if (error instanceof ApiError) {
    const { message, hint, passing } = error;
    return { message, hint, passing };
  }
  console.error(error);
  return { message: text.banner.notShown, hint: text.banner.notShownHint, passing: false };
}

/** Whether what is known of a run is about this pair of curves, if of another window. */
export const isAbout = ({ query }: Compared, wanted: CompareQuery): boolean =>
  query.baseline === wanted.baseline && query.role === wanted.role && query.x === wanted.x;

/** What a baseline and at least one of the runs log. */
export function comparableRoles(baseline: RunInfo, runs: readonly RunInfo[]): LoggedRole[] {
  const own = presentRoles([baseline], CHART_ROLES);
  return runs.length > 0 ? presentRoles(runs, own) : own;
}

/** The wanted role, unless the baseline has no such curve. */
export const comparedRole = (wanted: LoggedRole, baseline: RunInfo): LoggedRole =>
  wanted in baseline.roles ? wanted : (presentRoles([baseline], CHART_ROLES)[0] ?? wanted);

/** The runs without the baseline, which comes first where it is drawn. */
export const againstBaseline = (chosen: readonly string[], baseline: string | null): readonly string[] =>
  baseline === null ? chosen : [baseline, ...chosen.filter((run) => run !== baseline)];

export interface SettingRow {
  readonly name: string;
  readonly baseline: unknown;
  /** In the order of the runs; undefined where the run is as the baseline. */
  readonly values: readonly unknown[];
}

/** The settings in which at least one run differs from the baseline. */
export function settingRows(comparisons: readonly (Comparison | null)[]): SettingRow[] {
  const names = [...new Set(comparisons.flatMap((c) => c?.settings.map((s) => s.name) ?? []))].sort();
  return names.map((name) => {
    const own = comparisons.map((c) => c?.settings.find((s) => s.name === name));
    return { name, baseline: own.find(Boolean)!.baseline, values: own.map((s) => s?.value) };
  });
}
