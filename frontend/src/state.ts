/**
 * What the user chose, and how it outlives a reload: in the frame's own address (a link), in
 * sessionStorage (this browser tab), in localStorage (the next visit; without the zoom, which would
 * surprise there). Each part is checked alone, so a malformed one costs no other.
 */
import { SEVERITIES, type Severity } from "./api";
import { hashName } from "./palette";
import { type ChartRole, isChartRole, X_AXES, type XAxis } from "./roles";
import { keep, kept } from "./storage";
import type { ThemeChoice } from "./theme";

export type Mode = "lanes" | "merged";
export const Y_RANGES = ["auto", "full", "robust"] as const;
export type YRange = (typeof Y_RANGES)[number];

/** What stands in the middle. */
export const CHARTS = ["overlay", "stacked"] as const;
export type ChartKind = (typeof CHARTS)[number];
export const COLUMNS = [1, 2, 3] as const;

/** Linear or logarithmic y axes, where not what the role has by itself. */
export type Scales = Readonly<Partial<Record<ChartRole, "linear" | "log">>>;
/** y ranges that the user set or locked, in the role's own unit. */
export type Ranges = Readonly<Partial<Record<ChartRole, readonly [low: number, high: number]>>>;

export interface View {
  readonly chart: ChartKind;
  /** How many stacked panels stand side by side. */
  readonly columns: (typeof COLUMNS)[number];
  /** Chosen runs in the order they were chosen; null until the user chose any. */
  readonly runs: readonly string[] | null;
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
  /** Which findings are listed. */
  readonly level: "all" | Severity;
  /** Id of the selected finding. */
  readonly finding: string | null;
  /** What the others are compared with. */
  readonly baseline: string | null;
  readonly filter: string;
  readonly theme: ThemeChoice;
}

export const DEFAULT_VIEW: View = {
  chart: "overlay",
  columns: 2,
  runs: null,
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
  level: "all",
  finding: null,
  baseline: null,
  filter: "",
  theme: "auto",
};

const oneOf =
  <T>(...allowed: T[]) =>
  (v: unknown): v is T =>
    allowed.includes(v as T);
const finite = (v: unknown): v is number => typeof v === "number" && Number.isFinite(v);
const orNull =
  <T>(check: (v: unknown) => v is T) =>
  (v: unknown): v is T | null =>
    v === null || check(v);

const byRole =
  (valid: (v: unknown) => boolean) =>
  (v: unknown): boolean =>
    typeof v === "object" &&
    v !== null &&
    Object.entries(v).every(([role, of]) => isChartRole(role) && valid(of));
const isRange = (v: unknown): boolean =>
  Array.isArray(v) && v.length === 2 && finite(v[0]) && finite(v[1]) && v[0] < v[1];

const VALID: { [K in keyof View]: (v: unknown) => v is View[K] } = {
  chart: oneOf<ChartKind>(...CHARTS),
  columns: oneOf<View["columns"]>(...COLUMNS),
  runs: orNull((v): v is string[] => Array.isArray(v) && v.every((r) => typeof r === "string")),
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
  level: oneOf<View["level"]>("all", ...SEVERITIES),
  finding: orNull((v): v is string => typeof v === "string" && v.length <= 200),
  baseline: orNull((v): v is string => typeof v === "string"),
  filter: (v): v is string => typeof v === "string" && v.length <= 500,
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

/** A link stays pasteable: past this length the choice of runs is left out of it. */
const LONGEST_HASH = 1800;

export function viewToHash(view: View): string {
  const { runs, ...rest } = view;
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(rest)) {
    if (value !== null && value !== DEFAULT_VIEW[key as keyof View]) params.set(key, asText(value));
  }
  const short = params.toString();
  for (const run of runs ?? []) params.append("run", run);
  if (runs?.length === 0) params.set("run", "");
  const long = params.toString();
  return long.length <= LONGEST_HASH ? long : short;
}

/** `loss:log,lr:linear` and `loss:1.5:3` for what is said of several roles. */
function asText(value: NonNullable<View[keyof View]>): string {
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .map(([role, of]) => [role, ...[of].flat()].join(":"))
    .join(",");
}

function byRoleFromText(text: string, value: (parts: string[]) => unknown): unknown {
  return Object.fromEntries(
    text
      .split(",")
      .filter(Boolean)
      .map((entry) => {
        const [role = "", ...parts] = entry.split(":");
        return [role, value(parts)];
      }),
  );
}

const FROM_TEXT: Partial<Record<string, (text: string) => unknown>> = {
  columns: Number,
  logX: (text) => text === "true",
  yLock: (text) => text === "true",
  scales: (text) => byRoleFromText(text, ([scale]) => scale),
  ranges: (text) => byRoleFromText(text, (ends) => ends.map(Number)),
};

export function viewFromHash(hash: string): Partial<View> {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const raw: Record<string, unknown> = {};
  for (const [key, value] of params) {
    const isNumber = key === "from" || key === "to" || key === "smoothing";
    raw[key] = isNumber
      ? value.trim() === ""
        ? Number.NaN
        : Number(value)
      : (FROM_TEXT[key]?.(value) ?? value);
  }
  if (params.has("run")) raw.runs = params.getAll("run").filter((r) => r !== "");
  else delete raw.runs;
  return parseView(raw);
}

const storageKey = (logdir: string, what: string): string =>
  `training_health.${what}.${hashName(logdir).toString(36)}`;

export function restoreView(logdir: string): Partial<View> {
  return {
    ...parseView(kept(storageKey(logdir, "view"))),
    ...parseView(kept(storageKey(logdir, "view"), () => sessionStorage)),
  };
}

export function rememberView(logdir: string, view: View): void {
  keep(storageKey(logdir, "view"), view, () => sessionStorage);
  keep(storageKey(logdir, "view"), {
    ...view,
    from: null,
    to: null,
    filter: "",
    finding: null,
  });
  // Against the frame's own address: a bare "#…" would resolve against <base>, which is another page.
  const hash = viewToHash(view);
  history.replaceState(null, "", location.pathname + location.search + (hash && `#${hash}`));
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
