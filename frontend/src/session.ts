/**
 * The tab's one conversation with the server: what was asked, what came, what went wrong.
 * Overtaken requests are aborted; the last good picture stays until a newer one is whole.
 */
import { Address } from "./address";
import {
  type Api,
  ApiError,
  type Finding,
  isAbort,
  type RunInfo,
  type RunsAnswer,
  type SeriesQuery,
} from "./api";
import { presentRoles } from "./chart/plan";
import { type Checked, Checkup } from "./checkup";
import { againstBaseline, comparedRole } from "./compare";
import { findingId, stretchOf, versionOf, worst, worstFirst } from "./findings";
import { type Frame, Frames, joined } from "./frames";
import { type Language, rememberLanguage } from "./language";
import { coloursFromLink, type LinkContext, viewFromLink, viewToLink } from "./link";
import { assignSlots } from "./palette";
import type { Repaintable } from "./picture/picture";
import {
  COMPARE_AXES,
  canBeLog,
  type Given,
  givenPairs,
  type LoggedRole,
  QUERIED_ROLES,
  type Role,
  rolesOf,
  type XAxis,
} from "./roles";
import {
  type Drawn,
  defaultChoice,
  drawnRuns,
  filterRuns,
  listOrder,
  MOST_DRAWN,
  withRanks,
} from "./selection";
import { SparklineFeed } from "./sparklines";
import {
  DEFAULT_VIEW,
  rememberSlots,
  rememberView,
  restoreSlots,
  restoreView,
  type View,
  viewOfThisTab,
} from "./state";
import { Store } from "./store";
import { speak, text } from "./text";
import type { ThemeName } from "./theme";

export interface Problem {
  readonly message: string;
  readonly hint: string;
  /** When the next try starts (ms, Date.now()); null when trying again unchanged would not help. */
  readonly retryAt: number | null;
}

export interface SessionState {
  readonly answer: RunsAnswer | null;
  readonly runs: ReadonlyMap<string, RunInfo>;
  readonly order: readonly string[];
  readonly view: View;
  readonly slots: ReadonlyMap<string, number>;
  /** Colours that the user gave. */
  readonly ownSlots: ReadonlyMap<string, number>;
  readonly frame: Frame | null;
  readonly loading: boolean;
  readonly refreshing: boolean;
  readonly problem: Problem | null;
  /** When the shown data came (ms). */
  readonly freshAt: number;
  readonly hovered: string | null;
  /** By run, as far as they are known. */
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
  /** How many runs' findings are on their way, and why those of some did not come. */
  readonly checking: number;
  readonly unchecked: ReadonlyMap<string, string>;
  /** Its steps are lit in the chart. */
  readonly selectedFinding: Finding | null;
  /** The help dialog is open, or that in which tags are given roles. */
  readonly help: boolean;
  readonly picking: boolean;
  readonly language: Language;
  readonly hostTheme: ThemeName;
}

/** Where on the x axis the cursor was last, in whichever chart; its own store, as it follows the pointer. */
export interface Pointed {
  readonly x: number | null;
  /** A click keeps it there. */
  readonly pinned: boolean;
}

const TICK_MS = 1000;
const SETTLE_MS = 120; // a slider sends dozens of values on its way
const BACK_OFF_S = [2, 4, 8, 16, 30];
const POINT_BUDGET = 400_000;

export class Session extends Store<SessionState> {
  private runsAbort: AbortController | null = null;
  private seriesAbort: AbortController | null = null;
  private settle = 0;
  private retry = 0;
  private failures = 0;
  private lookedAt = 0;
  private plotPixels = 1200;
  private readonly frames = new Frames();
  private readonly checkup: Checkup;
  readonly sparklines: SparklineFeed;
  readonly pointed = new Store<Pointed>({ x: null, pinned: false });
  /** Those on the screen, for a picture of them. */
  readonly charts = new Set<Repaintable>();

  constructor(
    readonly api: Api,
    private readonly address: Address = new Address(),
  ) {
    super({
      answer: null,
      runs: new Map(),
      order: [],
      view: DEFAULT_VIEW,
      slots: new Map(),
      ownSlots: new Map(),
      frame: null,
      loading: true,
      refreshing: false,
      problem: null,
      freshAt: 0,
      hovered: null,
      findings: new Map(),
      checking: 0,
      unchecked: new Map(),
      selectedFinding: null,
      help: false,
      picking: false,
      language: "en",
      hostTheme: "light",
    });
    this.sparklines = new SparklineFeed(api);
    this.checkup = new Checkup(api, (checked) => this.takeFindings(checked));
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
    if (seen && alive && !refreshing && !this.retry) void this.reload("grown");
  }

  /**
   * The list of runs anew, and the curves: of all drawn runs, or of those that have grown since. Zoom and
   * choice stay.
   */
  async reload(what: "all" | "grown" = "all"): Promise<void> {
    this.clearRetry();
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
    const { given } = this.firstView(answer.searched.logdir, []);
    if (Object.keys(given).length === 0) return answer;
    this.patch({ view: { ...this.state.view, given } });
    return this.api.runs(this.state.language, signal);
  }

  /** As this browser tab had it before it was reloaded; else what the address says, else as it was at the last visit. */
  private firstView(logdir: string, runs: readonly string[]): View {
    const before = this.address.reloaded ? viewOfThisTab(logdir) : {};
    if (Object.keys(before).length > 0) return { ...DEFAULT_VIEW, ...before };
    return this.viewOf(restoreView(logdir), runs);
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
      view = this.firstView(logdir, [...runs.keys()]);
      slots = restoreSlots(logdir, "colours");
      ownSlots = this.withLinked(restoreSlots(logdir, "own-colours"), runs);
    }
    const known = view.runs?.filter((name) => runs.has(name));
    if (first && view.runs?.length && known?.length === 0) view = { ...view, runs: null };
    this.patch({ answer, runs, order: listOrder(answer.runs, this.state.order), view, slots, ownSlots });
    if (this.x !== this.state.view.x) this.dropZoom();
    this.giveColours();
    this.checkup.retry();
    this.check();
  }

  /**
   * The address says all of a view that is not as usual; where it says nothing the last one is taken up again. Habits
   * of whoever looks, and what they said of tags, stay unless it says otherwise.
   */
  private viewOf(remembered: Partial<View>, runs: readonly string[]): View {
    const said = this.address.read();
    if (said.size === 0) return { ...DEFAULT_VIEW, ...remembered };
    const { theme, every, given } = { ...DEFAULT_VIEW, ...remembered };
    return { ...DEFAULT_VIEW, theme, every, given, ...viewFromLink(said, runs) };
  }

  /** The address was edited by hand, or the browser went back. */
  takeAddress(): void {
    const { answer, runs, view } = this.state;
    if (!answer) return;
    const next = this.viewOf(view, [...runs.keys()]);
    this.patch({
      selectedFinding: selected(this.state.findings, next.finding),
      ownSlots: this.withLinked(this.state.ownSlots, runs),
    });
    this.setView(next);
    if (givenPairs(next.given).join() !== givenPairs(view.given).join()) void this.reload();
  }

  /** Colours by run, with those that the address gives. */
  private withLinked(
    own: ReadonlyMap<string, number>,
    runs: ReadonlyMap<string, RunInfo>,
  ): ReadonlyMap<string, number> {
    return new Map([...own, ...coloursFromLink(this.address.read(), [...runs.keys()])]);
  }

  private get linkContext(): LinkContext {
    const { order, view } = this.state;
    return {
      runs: [...this.state.runs.keys()],
      visible: filterRuns(order, view.filter).visible,
      drawn: this.drawn.runs.map((r) => r.run),
      colours: this.state.ownSlots,
    };
  }

  /** An address that shows what is shown now, to anybody who reaches this TensorBoard. */
  get link(): string {
    return this.address.link(viewToLink({ ...this.state.view, runs: this.chosen }, this.linkContext));
  }

  /** A window in steps means nothing on an axis of hours. */
  private dropZoom(): void {
    this.pointed.patch({ x: null, pinned: false });
    this.patch({ view: { ...this.state.view, from: null, to: null } });
  }

  /** The chosen runs that exist, in the order of choosing. */
  get chosen(): readonly string[] {
    const { view, runs, answer } = this.state;
    if (view.runs === null) return answer ? defaultChoice(answer.runs) : [];
    return view.runs.filter((name) => runs.has(name));
  }

  get drawn(): Drawn {
    const { runs, view } = this.state;
    const chosen = view.chart === "compare" ? againstBaseline(this.chosen, this.baseline) : this.chosen;
    const always = view.chart === "compare" ? this.baseline : null;
    return drawnRuns(runs, chosen, view.drawAll, rolesOf(view.chart), always);
  }

  /** The pinned run, if it is there. */
  get baseline(): string | null {
    const { runs, view } = this.state;
    return view.baseline !== null && runs.has(view.baseline) ? view.baseline : null;
  }

  /** What is compared: the chosen metric, unless the baseline has no such curve. */
  get metric(): LoggedRole {
    const { runs, view } = this.state;
    return this.baseline === null ? view.metric : comparedRole(view.metric, runs.get(this.baseline)!);
  }

  /** The x axis in use: the chosen one, unless none of the drawn runs has it. */
  get x(): XAxis {
    const { x: wanted, chart } = this.state.view;
    if (chart === "compare" && !COMPARE_AXES.includes(wanted)) return "step";
    const runs = this.drawn.runs;
    return runs.length === 0 || runs.some((r) => r.axes.includes(wanted)) ? wanted : "step";
  }

  get query(): SeriesQuery | null {
    const runs = this.drawn.runs.map((r) => r.run);
    if (runs.length === 0) return null;
    const { view } = this.state;
    const pixels = Math.ceil(this.plotPixels / 200) * 200; // rounded: a small resize needs no new data
    const roles = this.queriedRoles;
    const fair = Math.floor(POINT_BUDGET / (runs.length * roles.length));
    return {
      runs,
      roles,
      x: this.x,
      from: view.from,
      to: view.to,
      buckets: Math.max(200, Math.min(pixels, fair)),
      log_x: view.logX && canBeLog(this.x),
      smoothing: view.smoothing,
    };
  }

  /** The overlay also asks for what is missing, to say so. */
  private get queriedRoles(): readonly Role[] {
    const { chart } = this.state.view;
    if (chart === "compare") return [this.metric];
    return chart === "overlay"
      ? QUERIED_ROLES
      : [...presentRoles(this.drawn.runs, rolesOf(chart)), "overflow"];
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

  private keepView(): void {
    const { answer, view } = this.state;
    if (answer) rememberView(answer.searched.logdir, view);
    this.address.write(() => viewToLink(this.state.view, this.linkContext));
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
    const { from, finding, ranges, yLock } = this.state.view;
    return from !== null || finding !== null || (!yLock && Object.keys(ranges).length > 0);
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
  private async loadSeries(anew: "all" | ReadonlySet<string> = new Set()): Promise<void> {
    if (!this.state.answer) return;
    const query = this.query;
    const key = this.queryKey;
    const { frame: shown } = this.state;
    const stale = anew === "all" ? (query?.runs ?? []) : (query?.runs.filter((run) => anew.has(run)) ?? []);
    if (stale.length === 0 && anew !== "all" && shown?.key === key && !this.seriesAbort) {
      this.succeed();
      return;
    }
    this.seriesAbort?.abort();
    this.seriesAbort = null;
    if (anew === "all" || anew.size > 0) this.frames.clear();
    const known = this.frames.get(key);
    if (known) {
      this.patch({ frame: known, loading: false });
      return;
    }
    if (!query) {
      this.patch({ frame: null, loading: false });
      this.succeed();
      return;
    }
    const abort = new AbortController();
    this.seriesAbort = abort;
    this.patch({ loading: true });
    // The same window, of which some runs have grown: only those.
    const rest = anew !== "all" && stale.length > 0 && shown?.key === key ? shown : null;
    try {
      const answer = await this.api.series(rest ? { ...query, runs: stale } : query, abort.signal);
      if (abort.signal.aborted) return;
      this.seriesAbort = null;
      const frame = { key, query, ...(rest ? joined(rest, answer, stale) : answer) };
      this.frames.put(frame);
      this.patch({ frame, loading: false });
      this.succeed();
    } catch (error) {
      if (isAbort(error) || abort.signal.aborted) return;
      this.seriesAbort = null;
      this.patch({ loading: false });
      this.fail(error);
    }
  }

  private succeed(): void {
    this.failures = 0;
    this.clearRetry();
    this.patch({ problem: null, freshAt: Date.now() });
  }

  private fail(error: unknown): void {
    const known = error instanceof ApiError;
    if (!known) console.error(error);
    const passing = known ? error.passing : false;
    const wait = BACK_OFF_S[Math.min(this.failures, BACK_OFF_S.length - 1)]! * 1000;
    this.failures++;
    this.clearRetry();
    if (passing) this.retry = window.setTimeout(() => void this.reload(), wait);
    this.patch({
      loading: false,
      problem: {
        message: known ? error.message : text.banner.notShown,
        hint: known ? error.hint : text.banner.notShownHint,
        retryAt: passing ? Date.now() + wait : null,
      },
    });
  }

  private clearRetry(): void {
    window.clearTimeout(this.retry);
    this.retry = 0;
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
