/**
 * What the user chose, and how a browser keeps it: in sessionStorage (this browser tab) and in
 * localStorage (the next visit; without the zoom and the like, which would surprise there). link.ts says it in an
 * address. Each part is checked alone, so a malformed one costs no other.
 */
import { SEVERITIES, type Severity } from "./api";
import { runOf } from "./findings";
import { hashName } from "./palette";
import {
  CHART_ROLES,
  type ChartRole,
  GIVABLE_ROLES,
  type Given,
  isChartRole,
  type LoggedRole,
  X_AXES,
  type XAxis,
} from "./roles";
import { keep, kept } from "./storage";
import type { ThemeChoice } from "./theme";

export type Mode = "lanes" | "merged";
export const Y_RANGES = ["auto", "full", "robust"] as const;
export type YRange = (typeof Y_RANGES)[number];

/** What stands in the middle. */
export const CHARTS = ["overlay", "stacked", "compare"] as const;
export type ChartKind = (typeof CHARTS)[number];
export const COLUMNS = [1, 2, 3] as const;
/** What stands under it. */
export const BELOW = ["findings", "values"] as const;
export type Below = (typeof BELOW)[number];

/** Linear or logarithmic y axes, where not what the role has by itself. */
export type Scales = Readonly<Partial<Record<ChartRole, "linear" | "log">>>;
/** y ranges that the user set or locked, in the role's own unit. */
export type Ranges = Readonly<Partial<Record<ChartRole, readonly [low: number, high: number]>>>;

/** Seconds between looks for new data; 0: only when TensorBoard reloads. */
export const INTERVALS = [0, 10, 30, 60, 300] as const;

export interface View {
  readonly chart: ChartKind;
  /** How many stacked panels stand side by side. */
  readonly columns: (typeof COLUMNS)[number];
  /** Chosen runs in the order they were chosen; null until the user chose any. */
  readonly runs: readonly string[] | null;
  /** More curves than tell anything are drawn all the same. */
  readonly drawAll: boolean;
  readonly x: XAxis;
  readonly from: number | null;
  readonly to: number | null;
  readonly logX: boolean;
  readonly scales: Scales;
  readonly ranges: Ranges;
  /** Whether the ranges stay when the zoom is reset. */
  readonly yLock: boolean;
  readonly smoothing: number;
  /** How one run is drawn, and how several: two habits, so they are remembered apart. */
  readonly one: Mode;
  readonly many: Mode;
  readonly y: YRange;
  readonly below: Below;
  /** Which findings are listed. */
  readonly level: "all" | Severity;
  /** Whose findings are listed: as findings.ts has it. */
  readonly findingsOf: string;
  /** Id of the selected finding. */
  readonly finding: string | null;
  /** What the others are compared with. */
  readonly baseline: string | null;
  /** What of them is compared. */
  readonly metric: LoggedRole;
  /** How far a value may be from the baseline's, as a part of it, and what is added to that in the metric's unit. */
  readonly tolerance: number;
  readonly absolute: number;
  /** What the user says that tags mean; kept for this log directory. */
  readonly given: Given;
  readonly filter: string;
  readonly every: (typeof INTERVALS)[number];
  readonly theme: ThemeChoice;
}

export const DEFAULT_VIEW: View = {
  chart: "overlay",
  columns: 2,
  runs: null,
  drawAll: false,
  x: "step",
  from: null,
  to: null,
  logX: false,
  scales: {},
  ranges: {},
  yLock: false,
  smoothing: 0.9,
  one: "merged",
  many: "lanes",
  y: "auto",
  below: "findings",
  level: "all",
  findingsOf: "selected",
  finding: null,
  baseline: null,
  metric: "loss",
  tolerance: 0.01,
  absolute: 0,
  given: {},
  filter: "",
  every: 30,
  theme: "auto",
};

/** Other than those of one run. */
const LISTED: readonly string[] = ["selected", "all"];

/** Ten times the baseline's value. */
export const MOST_TOLERANCE = 10;

const oneOf =
  <T>(...allowed: T[]) =>
  (v: unknown): v is T =>
    allowed.includes(v as T);
const finite = (v: unknown): v is number => typeof v === "number" && Number.isFinite(v);
const orNull =
  <T>(check: (v: unknown) => v is T) =>
  (v: unknown): v is T | null =>
    v === null || check(v);

const isRecord = (v: unknown): v is Record<string, unknown> =>
  typeof v === "object" && v !== null && !Array.isArray(v);
const entriesAre = (v: object, valid: (key: string, of: unknown) => boolean): boolean =>
  Object.entries(v).every(([key, of]) => valid(key, of));
export const isGiven = (tag: string, role: unknown): boolean =>
  tag !== "" && (GIVABLE_ROLES as readonly unknown[]).includes(role);
const byRole =
  (valid: (v: unknown) => boolean) =>
  (v: unknown): boolean =>
    isRecord(v) && entriesAre(v, (role, of) => isChartRole(role) && valid(of));
const isRange = (v: unknown): boolean =>
  Array.isArray(v) && v.length === 2 && finite(v[0]) && finite(v[1]) && v[0] < v[1];

const VALID: { [K in keyof View]: (v: unknown) => v is View[K] } = {
  chart: oneOf<ChartKind>(...CHARTS),
  columns: oneOf<View["columns"]>(...COLUMNS),
  runs: orNull((v): v is string[] => Array.isArray(v) && v.every((r) => typeof r === "string")),
  drawAll: (v): v is boolean => typeof v === "boolean",
  x: oneOf(...X_AXES),
  from: orNull(finite),
  to: orNull(finite),
  logX: (v): v is boolean => typeof v === "boolean",
  scales: byRole((v) => v === "linear" || v === "log") as (v: unknown) => v is Scales,
  ranges: byRole(isRange) as (v: unknown) => v is Ranges,
  yLock: (v): v is boolean => typeof v === "boolean",
  smoothing: (v): v is number => finite(v) && v >= 0 && v < 1,
  one: oneOf<Mode>("lanes", "merged"),
  many: oneOf<Mode>("lanes", "merged"),
  y: oneOf<YRange>(...Y_RANGES),
  below: oneOf<Below>(...BELOW),
  level: oneOf<View["level"]>("all", ...SEVERITIES),
  findingsOf: (v): v is string => typeof v === "string" && (LISTED.includes(v) || runOf(v) !== null),
  finding: orNull((v): v is string => typeof v === "string" && v.length <= 200),
  baseline: orNull((v): v is string => typeof v === "string"),
  metric: oneOf<LoggedRole>(...CHART_ROLES),
  tolerance: (v): v is number => finite(v) && v >= 0 && v <= MOST_TOLERANCE,
  absolute: (v): v is number => finite(v) && v >= 0,
  given: (v): v is Given => isRecord(v) && entriesAre(v, isGiven),
  filter: (v): v is string => typeof v === "string" && v.length <= 500,
  every: oneOf<View["every"]>(...INTERVALS),
  theme: oneOf<ThemeChoice>("auto", "light", "dark"),
};

/** The valid parts of anything. */
export function parseView(raw: unknown): Partial<View> {
  if (typeof raw !== "object" || raw === null) return {};
  const parts: Record<string, unknown> = {};
  for (const [key, valid] of Object.entries(VALID)) {
    const value = (raw as Record<string, unknown>)[key];
    if (value !== undefined && valid(value)) parts[key] = value;
  }
  // Half a window, or one turned around, is no window.
  const { from, to } = parts as Partial<View>;
  if (from == null || to == null || !(from < to)) {
    delete parts.from;
    delete parts.to;
  }
  return parts as Partial<View>;
}

const storageKey = (logdir: string, what: string): string =>
  `training_health.${what}.${hashName(logdir).toString(36)}`;

/** As it was in this browser tab; empty where it was not open in it yet. */
export const viewOfThisTab = (logdir: string): Partial<View> =>
  parseView(kept(storageKey(logdir, "view"), () => sessionStorage));

/** As it was at the last visit. */
export const restoreView = (logdir: string): Partial<View> => ({
  ...parseView(kept(storageKey(logdir, "view"))),
  ...viewOfThisTab(logdir),
});

export function rememberView(logdir: string, view: View): void {
  keep(storageKey(logdir, "view"), view, () => sessionStorage);
  keep(storageKey(logdir, "view"), {
    ...view,
    from: null,
    to: null,
    filter: "",
    finding: null,
    findingsOf: DEFAULT_VIEW.findingsOf,
    drawAll: false,
  });
}

const MOST_SLOTS = 500;

/** Colours by run: those that were assigned ("colours"), and those that the user gave ("own-colours"). */
type SlotKind = "colours" | "own-colours";

export function restoreSlots(logdir: string, kind: SlotKind): Map<string, number> {
  const raw = kept(storageKey(logdir, kind));
  if (!Array.isArray(raw)) return new Map();
  return new Map(
    raw.filter(
      (e): e is [string, number] =>
        Array.isArray(e) && typeof e[0] === "string" && Number.isInteger(e[1]) && e[1] >= 0,
    ),
  );
}

export const rememberSlots = (logdir: string, kind: SlotKind, slots: ReadonlyMap<string, number>): void =>
  keep(storageKey(logdir, kind), [...slots].slice(-MOST_SLOTS));
