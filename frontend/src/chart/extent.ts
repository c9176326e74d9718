/** How far the data reach, and what a narrower range would cut off. */
import type { Segment } from "../decode";
import { type ChartRole, ROLE_STYLE, type Transform } from "../roles";
import type { Scales, YRange } from "../state";
import { farthest, robustRange, runsOf, withSmoothedLines } from "./robust";
import { eachPoint, eachSmoothed, type Window } from "./window";

export interface Clipped {
  /** False where a bucket of points counts as one. */
  readonly exact: boolean;
  readonly above: number;
  readonly max: number;
  readonly below: number;
  readonly min: number;
}

export interface Extent {
  /** In transformed units; null when no finite value can be drawn. */
  readonly range: readonly [number, number] | null;
  readonly clipped: Clipped | null;
  /** Finite values a log axis has no place for. */
  readonly nonPositive: number;
}

export const transformOf = (t: Transform): ((v: number) => number) =>
  t === "log10" ? Math.log10 : t === "log2" ? Math.log2 : (v) => v;

/** So many times apart, learning rates on a linear axis leave all but the highest on the floor. */
const RATES_APART = 10;
/** Down to this share of its peak a schedule says something; below it is warming up or has ended. */
const RATE_FLOOR = 1e-2;

/** The y scale of a role: the chosen one, its own, and for learning rates that are far apart a logarithm. */
export function transformFor(role: ChartRole, scales: Scales, segments: readonly Segment[]): Transform {
  const own = ROLE_STYLE[role].transform;
  if (scales[role] === "linear") return "linear";
  if (scales[role] === "log") return own === "linear" ? "log10" : own;
  if (role === "lr") {
    const peaks = ratePeaks(segments);
    if (Math.max(...peaks) > RATES_APART * Math.min(...peaks)) return "log10";
  }
  return own;
}

const ratePeaks = (segments: readonly Segment[]): number[] =>
  runsOf(segments)
    .map((own) => Math.max(...own.map((s) => (s.current ? (s.ymax ?? 0) : 0))))
    .filter((peak) => peak > 0);

/** From this many times the robust range on, the full one flattens everything but its outliers. */
const OUTLYING = 5;
/** Few points are all worth seeing: only orders of magnitude justify leaving one out. */
const FEW = 200;

export interface ExtentInput {
  readonly role: ChartRole;
  readonly transform: Transform;
  readonly window: Window | null;
  readonly y: YRange;
  /** The user's own range, in the role's unit. */
  readonly range?: readonly [number, number] | undefined;
}

/** Range of one role's segments over a window of x. */
export function roleExtent(segments: readonly Segment[], input: ExtentInput): Extent {
  const { role, transform, window, y: wanted } = input;
  const log = transform !== "linear";
  const f = transformOf(transform);
  let lo = Number.POSITIVE_INFINITY;
  let hi = Number.NEGATIVE_INFINITY;
  let nonPositive = 0;
  eachPoint(segments, window, (min, max) => {
    if (log && min <= 0) {
      nonPositive++;
      if (max <= 0) return;
      min = max;
    }
    if (min < lo) lo = min;
    if (max > hi) hi = max;
  });
  const own = input.range && !(log && input.range[0] <= 0) ? input.range : null;
  if (lo > hi) return { range: own ? [f(own[0]), f(own[1])] : null, clipped: null, nonPositive };
  const data = { segments, window, log, lo, hi };
  if (own) return { range: [f(own[0]), f(own[1])], clipped: clippedBy(own, data), nonPositive };

  // Behind a steep fall the smoothed line runs above every point of the window.
  let [lowest, highest] = [lo, hi];
  if (ROLE_STYLE[role].smooth) {
    eachSmoothed(segments, window, (v) => {
      if (log && v <= 0) return;
      if (v < lowest) lowest = v;
      if (v > highest) highest = v;
    });
  }
  const used = narrowed(segments, role, transform, window, wanted, [lowest, highest]);
  if (!used) return { range: padded(f(lowest), f(highest), role, transform), clipped: null, nonPositive };
  const shown = [Math.max(lowest, used[0]), Math.min(highest, used[1])] as const;
  return {
    range: padded(f(shown[0]), f(shown[1]), role, transform),
    clipped: clippedBy(shown, data),
    nonPositive,
  };
}

/** A narrower range than all of the data's, where that is wanted and shows more; else null. */
function narrowed(
  segments: readonly Segment[],
  role: ChartRole,
  transform: Transform,
  window: Window | null,
  wanted: YRange,
  [lowest, highest]: readonly [number, number],
): [number, number] | null {
  if (wanted === "full") return null;
  const log = transform !== "linear";
  if (role === "lr" && log) {
    const floor = Math.min(...ratePeaks(segments)) * RATE_FLOOR;
    return floor > lowest ? [floor, highest] : null;
  }
  // A log axis has room for outliers: by itself it never cuts.
  if (wanted === "auto" && log) return null;
  const robust = robustRange(segments, role, transform, window);
  if (!robust || wanted === "robust") return robust;
  const used = withSmoothedLines(robust, segments, window);
  const few = mostPoints(segments, window) < FEW;
  const limit = few ? farthest(used, segments, window) : OUTLYING * (used[1] - used[0]);
  return highest - lowest <= limit ? null : used;
}

interface Reach {
  readonly segments: readonly Segment[];
  readonly window: Window | null;
  readonly log: boolean;
  readonly lo: number;
  readonly hi: number;
}

function clippedBy([low, high]: readonly [number, number], { segments, window, log, lo, hi }: Reach) {
  let above = 0;
  let below = 0;
  eachPoint(segments, window, (min, max) => {
    if (max > high) above++;
    if (min < low && !(log && min <= 0)) below++;
  });
  const exact = segments.every((s) => s.raw);
  return above || below ? { exact, above, below, max: hi, min: lo } : null;
}

/** Of the run with the most of them. */
function mostPoints(segments: readonly Segment[], window: Window | null): number {
  const counts = runsOf(segments).map((own) => {
    let n = 0;
    eachPoint(own, window, () => n++);
    return n;
  });
  return Math.max(0, ...counts);
}

function padded(lo: number, hi: number, role: ChartRole, transform: Transform): [number, number] {
  if (transform === "log2") {
    // A constant scale still shows where its neighbours 2ⁿ⁻¹ and 2ⁿ⁺¹ would be.
    return hi - lo < 2 ? [Math.floor(lo) - 1, Math.ceil(hi) + 1] : [lo, hi];
  }
  if (role === "lr" && transform === "linear") {
    // A schedule is read against zero.
    if (lo >= 0) return [0, hi > 0 ? hi * 1.03 : 1];
    return [lo, Math.max(hi, 0)];
  }
  if (hi > lo) return [lo, hi];
  const around = transform === "log10" ? 0.5 : Math.abs(lo) * 0.05 || 0.5;
  return [lo - around, hi + around];
}
