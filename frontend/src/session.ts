/**
 * The tab's one conversation with the server: what was asked, what came, what went wrong.
 * Overtaken requests are aborted; the last good picture stays until a newer one is whole.
 */
import { Address } from "./address";
import { type Api, type Finding, isAbort, type RunInfo, type RunsAnswer, type SeriesQuery } from "./api";
import { type Checked, Checkup } from "./checkup";
import { findingId, stretchOf, versionOf, worst, worstFirst } from "./findings";
import { type Language, rememberLanguage } from "./language";
import type { LinkContext } from "./link";
import { assignSlots } from "./palette";
import type { Repaintable } from "./picture/picture";
import { Retry } from "./retry";
import { type Given, givenPairs, type LoggedRole, type XAxis } from "./roles";
import { type Drawn, filterRuns, listOrder, MOST_DRAWN, withRanks } from "./selection";
import { type Anew, SeriesFeed } from "./series-feed";
import { BEGINNING, type Pointed, type SessionState } from "./session-state";
import { axisOf, baselineOf, chosenRuns, drawnOf, isNarrowed, metricOf, queryOf } from "./shown";
import { SparklineFeed } from "./sparklines";
import { rememberSlots, restoreSlots, type View } from "./state";
import { Store } from "./store";
import { speak } from "./text";
import { ViewSource } from "./view-source";

export type { SessionState } from "./session-state";

const TICK_MS = 1000;
const SETTLE_MS = 120; // a slider sends dozens of values on its way

export class Session extends Store<SessionState> {
  private runsAbort: AbortController | null = null;
  private settle = 0;
  private lookedAt = 0;
  private plotPixels = 1200;
  private readonly views: ViewSource;
  private readonly retry = new Retry(() => void this.reload());
  private readonly series: SeriesFeed;
  private readonly checkup: Checkup;
  readonly sparklines: SparklineFeed;
  readonly pointed = new Store<Pointed>({ x: null, pinned: false });
  /** Those on the screen, for a picture of them. */
  readonly charts = new Set<Repaintable>();

  constructor(
    readonly api: Api,
    address: Address = new Address(),
  ) {
    super(BEGINNING);
    this.views = new ViewSource(address);
    this.sparklines = new SparklineFeed(api);
    this.checkup = new Checkup(api, (checked) => this.takeFindings(checked));
    this.series = new SeriesFeed(api, {
      onLoading: () => this.patch({ loading: true }),
      onFrame: (frame, fresh) => {
        this.patch({ frame, loading: false });
        if (fresh) this.succeed();
      },
      onSettled: () => this.succeed(),
      onProblem: (error) => this.fail(error),
    });
  }

  start(): void {
    void this.reload();
    window.setInterval(() => {
      const { every } = this.state.view;
      if (every > 0 && Date.now() - this.lookedAt >= every * 1000) this.look();
    }, TICK_MS);
  }

  /** For what is new, unless nobody can see it or nothing can be. */
  private look(): void {
    const seen = document.visibilityState === "visible" && document.documentElement.clientWidth > 0;
    const { answer, refreshing } = this.state;
    const alive = !answer || answer.runs.length === 0 || answer.runs.some((r) => r.status === "running");
    if (seen && alive && !refreshing && !this.retry.pending) void this.reload("grown");
  }

  /**
   * The list of runs anew, and the curves: of all drawn runs, or of those that have grown since. Zoom and
   * choice stay.
   */
  async reload(what: "all" | "grown" = "all"): Promise<void> {
    this.retry.stop();
    this.runsAbort?.abort();
    const abort = new AbortController();
    this.runsAbort = abort;
    this.lookedAt = Date.now();
    this.patch({ refreshing: true });
    try {
      const before = this.state.runs;
      const answer = await this.listed(abort.signal);
      if (abort.signal.aborted) return;
      this.takeRuns(answer);
      await this.loadSeries(what === "all" ? "all" : grownSince(before, this.state.runs));
    } catch (error) {
      if (!isAbort(error)) this.fail(error);
    } finally {
      if (this.runsAbort === abort) this.patch({ refreshing: false });
    }
  }

  /** What tags mean is known once it is known which log directory this is: then it is asked again. */
  private async listed(signal: AbortSignal): Promise<RunsAnswer> {
    const answer = await this.api.runs(this.state.language, signal);
    if (this.state.answer || signal.aborted) return answer;
    const { given } = this.views.first(answer.searched.logdir, []);
    if (Object.keys(given).length === 0) return answer;
    this.patch({ view: { ...this.state.view, given } });
    return this.api.runs(this.state.language, signal);
  }

  exportUrl(runs: readonly string[], format: "csv" | "json"): string {
    return this.api.exportUrl(runs, format);
  }

  private takeRuns(answer: RunsAnswer): void {
    const first = this.state.answer === null;
    const runs = withRanks(answer.runs);
    let { view, slots, ownSlots } = this.state;
    const logdir = answer.searched.logdir;
    if (first) {
      const names = [...runs.keys()];
      view = this.views.first(logdir, names);
      slots = restoreSlots(logdir, "colours");
      ownSlots = this.views.colours(restoreSlots(logdir, "own-colours"), names);
    }
    const known = view.runs?.filter((name) => runs.has(name));
    if (first && view.runs?.length && known?.length === 0) view = { ...view, runs: null };
    this.patch({ answer, runs, order: listOrder(answer.runs, this.state.order), view, slots, ownSlots });
    if (this.x !== this.state.view.x) this.dropZoom();
    this.giveColours();
    this.checkup.retry();
    this.check();
  }

  /** The address was edited by hand, or the browser went back. */
  takeAddress(): void {
    const { answer, runs, view, ownSlots, findings } = this.state;
    if (!answer) return;
    const names = [...runs.keys()];
    const next = this.views.said(view, names);
    this.patch({
      selectedFinding: selected(findings, next.finding),
      ownSlots: this.views.colours(ownSlots, names),
    });
    this.setView(next);
    if (givenPairs(next.given).join() !== givenPairs(view.given).join()) void this.reload();
  }

  private get linkContext(): LinkContext {
    const { order, view, runs, ownSlots } = this.state;
    return {
      runs: [...runs.keys()],
      visible: filterRuns(order, view.filter).visible,
      drawn: this.drawn.runs.map((r) => r.run),
      colours: ownSlots,
    };
  }

  /** An address that shows what is shown now, to anybody who reaches this TensorBoard. */
  get link(): string {
    return this.views.link({ ...this.state.view, runs: this.chosen }, this.linkContext);
  }

  private keepView(): void {
    const { answer, view } = this.state;
    this.views.keep(answer?.searched.logdir, view, () => [this.state.view, this.linkContext]);
  }

  /** A window in steps means nothing on an axis of hours. */
  private dropZoom(): void {
    this.pointed.patch({ x: null, pinned: false });
    this.patch({ view: { ...this.state.view, from: null, to: null } });
  }

  get chosen(): readonly string[] {
    return chosenRuns(this.state);
  }

  get drawn(): Drawn {
    return drawnOf(this.state);
  }

  get baseline(): string | null {
    return baselineOf(this.state);
  }

  get metric(): LoggedRole {
    return metricOf(this.state);
  }

  get x(): XAxis {
    return axisOf(this.state);
  }

  get query(): SeriesQuery | null {
    return queryOf(this.state, this.plotPixels);
  }

  /** The query, and what it is asked with. */
  get queryKey(): string {
    return JSON.stringify([this.query, givenPairs(this.state.view.given)]);
  }

  setView(change: Partial<View>, soon = false): void {
    const axis = this.x;
    this.patch({ view: { ...this.state.view, ...change } });
    if (this.x !== axis) this.dropZoom();
    this.giveColours();
    if (CHECKED.some((part) => part in change)) this.check();
    this.keepView();
    window.clearTimeout(this.settle);
    if (soon) this.settle = window.setTimeout(() => void this.loadSeries(), SETTLE_MS);
    else void this.loadSeries();
  }

  /** Says what tags mean; the runs are listed anew with that. */
  setGiven(given: Given): void {
    this.patch({ view: { ...this.state.view, given } });
    this.keepView();
    void this.reload();
  }

  setLanguage(language: Language): void {
    rememberLanguage(language);
    this.speak(language);
    void this.reload();
  }

  speak(language: Language): void {
    speak(language);
    this.patch({ language });
  }

  /** Findings of the runs that are known to have some, worst first, and of those of which nothing is known yet. */
  private check(): void {
    const { runs, language, view, order } = this.state;
    const chosen = this.chosen.flatMap((name) => runs.get(name) ?? []);
    const rest = view.findingsOf === "all" ? order.flatMap((name) => runs.get(name) ?? []) : chosen;
    const baseline = this.baseline === null ? null : runs.get(this.baseline)!;
    // To ask for more would read those runs, of which there may be thousands. Against a baseline there may be
    // something to say of a run in which nothing is wrong.
    const looked = chosen.slice(0, MOST_DRAWN).filter((run) => run.findings === null || baseline !== null);
    const asked = new Set([...worstFirst(rest), ...looked]);
    this.checkup.clear(
      rest.filter((run) => run.findings !== null && !worst(run) && !asked.has(run)).map((run) => run.run),
    );
    this.checkup.want([...asked], language, baseline);
  }

  private takeFindings(checked: Checked): void {
    this.patch({ ...checked, selectedFinding: selected(checked.findings, this.state.view.finding) });
  }

  /** Zooms to a finding's stretch and lights its run; null lets go of it and keeps the window. */
  selectFinding(finding: Finding | null): void {
    if (!finding) {
      this.patch({ selectedFinding: null });
      this.setView({ finding: null });
      return;
    }
    const chosen = this.chosen;
    this.patch({ selectedFinding: finding });
    this.setView({
      ...(!chosen.includes(finding.run) && { runs: [...chosen, finding.run] }),
      // Findings are told in steps; on another axis they have no place that is known here.
      x: "step",
      ...stretchOf(finding, this.state.runs.get(finding.run)),
      finding: findingId(finding),
    });
  }

  /** Whether there is something to let go of. */
  get narrowed(): boolean {
    return isNarrowed(this.state);
  }

  /** Lets go of the finding, the window, and of y ranges that are not locked. */
  showAll(): void {
    this.patch({ selectedFinding: null });
    this.setView({ from: null, to: null, finding: null, ...(!this.state.view.yLock && { ranges: {} }) });
  }

  setPlotPixels(pixels: number): void {
    if (pixels < 50 || pixels === this.plotPixels) return;
    this.plotPixels = pixels;
    void this.loadSeries();
  }

  private giveColours(): void {
    const drawn = this.drawn.runs.map((r) => r.run);
    const { slots: before, ownSlots, answer } = this.state;
    const slots = new Map([...before, ...ownSlots, ...assignSlots(drawn, before, ownSlots)]);
    if ([...slots].every(([run, slot]) => before.get(run) === slot)) return;
    this.patch({ slots });
    if (answer) rememberSlots(answer.searched.logdir, "colours", slots);
  }

  /** Null: back to the colour that the run has by its name. */
  setColour(run: string, slot: number | null): void {
    const ownSlots = new Map(this.state.ownSlots);
    const slots = new Map(this.state.slots);
    slots.delete(run);
    if (slot === null) ownSlots.delete(run);
    else ownSlots.set(run, slot);
    this.patch({ ownSlots, slots });
    this.giveColours();
    const { answer } = this.state;
    if (answer) rememberSlots(answer.searched.logdir, "own-colours", ownSlots);
    this.keepView();
  }

  /** `anew`: what was fetched before holds no longer for these runs. */
  private async loadSeries(anew?: Anew): Promise<void> {
    if (!this.state.answer) return;
    await this.series.want({ query: this.query, key: this.queryKey, shown: this.state.frame }, anew);
  }

  private succeed(): void {
    this.retry.succeeded();
    this.patch({ problem: null, freshAt: Date.now() });
  }

  private fail(error: unknown): void {
    this.patch({ loading: false, problem: this.retry.failed(error) });
  }
}

/** Parts of a view on which it hangs which findings are wanted. */
const CHECKED: readonly (keyof View)[] = ["runs", "finding", "findingsOf", "baseline"];

function grownSince(
  before: ReadonlyMap<string, RunInfo>,
  now: ReadonlyMap<string, RunInfo>,
): ReadonlySet<string> {
  const grown = [...now.values()].filter((run) => {
    const known = before.get(run.run);
    return !known || versionOf(known) !== versionOf(run);
  });
  return new Set(grown.map((run) => run.run));
}

function selected(findings: SessionState["findings"], id: string | null): Finding | null {
  if (id === null) return null;
  for (const own of findings.values()) {
    const found = own.find((f) => findingId(f) === id);
    if (found) return found;
  }
  return null;
}
