/** Fetches the windows of the drawn curves: each once, only of runs that grew, and none that was overtaken. */
import { type Api, isAbort, type SeriesQuery } from "./api";
import { type Frame, Frames, joined } from "./frames";

/** What was fetched before holds no longer: for no run, for these, or for all. */
export type Anew = "all" | ReadonlySet<string>;

export interface Wanted {
  /** Null where nothing is drawn. */
  readonly query: SeriesQuery | null;
  /** Another one for whatever would have another answer. */
  readonly key: string;
  /** What is on the screen. */
  readonly shown: Frame | null;
}

interface Told {
  onLoading: () => void;
  onFrame: (frame: Frame | null, fresh: boolean) => void;
  /** The frame that is shown is what is wanted. */
  onSettled: () => void;
  onProblem: (error: unknown) => void;
}

export class SeriesFeed {
  private readonly frames = new Frames();
  private abort: AbortController | null = null;

  constructor(
    private readonly api: Pick<Api, "series">,
    private readonly told: Told,
  ) {}

  async want({ query, key, shown }: Wanted, anew: Anew = new Set()): Promise<void> {
    const stale = query?.runs.filter((run) => anew === "all" || anew.has(run)) ?? [];
    if (stale.length === 0 && anew !== "all" && shown?.key === key && !this.abort) {
      this.told.onSettled();
      return;
    }
    this.abort?.abort();
    this.abort = null;
    if (anew === "all" || anew.size > 0) this.frames.clear();
    const known = this.frames.get(key);
    if (known || !query) {
      this.told.onFrame(known, !query);
      return;
    }
    // The same window, of which some runs have grown: only those.
    const rest = anew !== "all" && stale.length > 0 && shown?.key === key ? shown : null;
    await this.fetch(key, query, rest, stale);
  }

  private async fetch(
    key: string,
    query: SeriesQuery,
    rest: Frame | null,
    stale: readonly string[],
  ): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    this.told.onLoading();
    try {
      const answer = await this.api.series(rest ? { ...query, runs: stale } : query, abort.signal);
      if (abort.signal.aborted) return;
      this.abort = null;
      const frame = { key, query, ...(rest ? joined(rest, answer, stale) : answer) };
      this.frames.put(frame);
      this.told.onFrame(frame, true);
    } catch (error) {
      if (isAbort(error) || abort.signal.aborted) return;
      this.abort = null;
      this.told.onProblem(error);
    }
  }
}
