/** Small pictures of the loss for the rows in sight, fetched together and anew only for runs that grew. */
import { type Api, isAbort, type RunInfo } from "./api";
import type { Segment } from "./decode";
import { versionOf } from "./findings";
import { Store } from "./store";

/** Few enough to be small, with the exact extremes of each, so a spike of one step is in it. */
const BUCKETS = 50;
const SETTLE_MS = 150;
/** In one request: what one look at the list shows, with something to spare. */
const AT_ONCE = 60;

export interface Sparkline {
  /** SVG path data in a box of 1 x 1, y downwards; null where there is nothing to draw. */
  readonly path: string | null;
  /** Last logged step and value. */
  readonly step: number;
  readonly value: number;
}

export interface Sparklines {
  readonly lines: ReadonlyMap<string, Sparkline>;
}

export class SparklineFeed extends Store<Sparklines> {
  private readonly versions = new Map<string, string>();
  private wanted: readonly RunInfo[] = [];
  private timer = 0;
  private abort: AbortController | null = null;

  constructor(private readonly api: Pick<Api, "series">) {
    super({ lines: new Map() });
  }

  want(runs: readonly RunInfo[]): void {
    this.wanted = runs;
    window.clearTimeout(this.timer);
    if (this.missing().length > 0) this.timer = window.setTimeout(() => void this.fetch(), SETTLE_MS);
  }

  private missing(): readonly RunInfo[] {
    return this.wanted
      .filter((run) => run.roles.loss && this.versions.get(run.run) !== versionOf(run))
      .slice(0, AT_ONCE);
  }

  private async fetch(): Promise<void> {
    const runs = this.missing();
    if (runs.length === 0) return;
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    const names = runs.map((run) => run.run);
    const query = {
      roles: ["loss"],
      x: "step",
      from: null,
      to: null,
      buckets: BUCKETS,
      log_x: false,
      smoothing: 0,
    } as const;
    try {
      const { segments } = await this.api.series({ ...query, runs: names }, abort.signal);
      if (abort.signal.aborted) return;
      const lines = new Map(this.state.lines);
      for (const run of runs) {
        this.versions.set(run.run, versionOf(run));
        const curve = segments.find((s) => s.run === run.run && s.current && s.n > 0);
        if (curve) lines.set(run.run, sparkline(curve));
      }
      this.patch({ lines });
    } catch (error) {
      // The curves' own request says what is wrong; the list does without, and asks again when it is looked at.
      if (!isAbort(error)) console.warn(error);
      return;
    }
    if (this.missing().length > 0) void this.fetch();
  }
}

/** Every bucket's highest and lowest value, in its own extent. */
export function sparkline(s: Segment): Sparkline {
  const last = s.n - 1;
  const facts = { step: s.x[last]!, value: s.last[last]! };
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < s.n; i++) {
    if (s.min[i]! < low) low = s.min[i]!;
    if (s.max[i]! > high) high = s.max[i]!;
  }
  if (!(low <= high)) return { ...facts, path: null };
  const width = s.x[last]! - s.x[0]! || 1;
  const y = (v: number) => (high > low ? ((high - v) / (high - low)).toFixed(3) : "0.5");
  let path = "";
  let pen = "M";
  for (let i = 0; i < s.n; i++) {
    const min = s.min[i]!;
    if (min !== min) {
      pen = "M"; // nothing is drawn across what was NaN
      continue;
    }
    const x = ((s.x[i]! - s.x[0]!) / width).toFixed(3);
    path += `${pen}${x} ${y(s.max[i]!)}`;
    if (s.max[i]! > min) path += `V${y(min)}`;
    pen = "L";
  }
  return { ...facts, path };
}
