/** How far the data reach, and what a narrower range would cut off. */
import type { Segment } from "../decode";
import { type OverlayRole, ROLE_STYLE, type Transform } from "../roles";
import type { YRange } from "../state";
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

/** From this many times the robust range on, the full one flattens everything but its outliers. */
const OUTLYING = 5;
/** Few points are all worth seeing: only orders of magnitude justify leaving one out. */
const FEW = 200;

/** Range of one role's segments over a window of x. */
export function roleExtent(
  segments: readonly Segment[],
  role: OverlayRole,
  window: Window | null,
  wanted: YRange,
): Extent {
  const { transform, shape } = ROLE_STYLE[role];
  const log = transform !== "linear";
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
  if (lo > hi) return { range: null, clipped: null, nonPositive };

  // Behind a steep fall the smoothed line runs above every point of the window.
  let [lowest, highest] = [lo, hi];
  if (shape === "curve") {
    eachSmoothed(segments, window, (v) => {
      if (log && v <= 0) return;
      lowest = Math.min(lowest, v);
      highest = Math.max(highest, v);
    });
  }
  const f = transformOf(transform);
  // A log axis has room for outliers: by itself it never cuts.
  const whole = wanted === "full" || (wanted === "auto" && log);
  let used = whole ? null : robustRange(segments, role, window);
  if (used && wanted === "auto") {
    used = withSmoothedLines(used, segments, window);
    const few = mostPoints(segments, window) < FEW;
    const limit = few ? farthest(used, segments, window) : OUTLYING * (used[1] - used[0]);
    if (highest - lowest <= limit) used = null;
  }
  if (!used) return { range: padded(f(lowest), f(highest), role), clipped: null, nonPositive };

  const [low, high] = [Math.max(lowest, used[0]), Math.min(highest, used[1])];
  let above = 0;
  let below = 0;
  eachPoint(segments, window, (min, max) => {
    if (max > high) above++;
    if (min < low && !(log && min <= 0)) below++;
  });
  const exact = segments.every((s) => s.raw);
  const clipped = above || below ? { exact, above, below, max: hi, min: lo } : null;
  return { range: padded(f(low), f(high), role), clipped, nonPositive };
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

function padded(lo: number, hi: number, role: OverlayRole): [number, number] {
  if (role === "lr") {
    // A schedule is read against zero.
    if (lo >= 0) return [0, hi > 0 ? hi * 1.03 : 1];
    return [lo, Math.max(hi, 0)];
  }
  if (ROLE_STYLE[role].transform === "log2") {
    // A constant scale still shows where its neighbours 2ⁿ⁻¹ and 2ⁿ⁺¹ would be.
    return hi - lo < 2 ? [Math.floor(lo) - 1, Math.ceil(hi) + 1] : [lo, hi];
  }
  if (hi > lo) return [lo, hi];
  const around = ROLE_STYLE[role].transform === "log10" ? 0.5 : Math.abs(lo) * 0.05 || 0.5;
  return [lo - around, hi + around];
}
