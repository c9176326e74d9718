/** How far the data reach, and what a narrower range would cut off. */
import type { Segment } from "../decode";
import { type OverlayRole, ROLE_STYLE, type Transform } from "../roles";

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

/** First index whose x is not below the wanted one. */
export function lowerBound(x: Float64Array, wanted: number): number {
  let lo = 0;
  let hi = x.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (x[mid]! < wanted) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** Range of one role's segments over a window of x. */
export function roleExtent(
  segments: readonly Segment[],
  role: OverlayRole,
  window: Window | null,
  robust: boolean,
): Extent {
  const log = ROLE_STYLE[role].transform !== "linear";
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

  let clipped: Clipped | null = null;
  if (robust) {
    const [low, high] = robustRange(segments, log) ?? [lo, hi];
    let above = 0;
    let below = 0;
    eachPoint(segments, window, (min, max) => {
      if (max > high) above++;
      if (min < low && !(log && min <= 0)) below++;
    });
    if (above || below) clipped = { exact: segments.every((s) => s.raw), above, below, max: hi, min: lo };
    lo = Math.max(lo, low);
    hi = Math.min(hi, high);
    if (lo > hi) [lo, hi] = [Math.min(lo, hi), Math.max(lo, hi)];
  }
  const f = transformOf(ROLE_STYLE[role].transform);
  return { range: padded(f(lo), f(hi), role), clipped, nonPositive };
}

/** Percentiles 1 and 99 over the segments, with a margin of a tenth of the way between them. */
function robustRange(segments: readonly Segment[], log: boolean): [number, number] | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const s of segments) {
    if (s.p1 === null || s.p99 === null) continue;
    low = Math.min(low, s.p1);
    high = Math.max(high, s.p99);
  }
  if (low > high) return null;
  if (log) {
    if (low <= 0) return [0, high * 1.5];
    const factor = (high / low) ** 0.1;
    return [low / factor, high * factor];
  }
  const margin = (high - low) * 0.1;
  return [low - margin, high + margin];
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

function eachPoint(
  segments: readonly Segment[],
  window: Window | null,
  visit: (min: number, max: number) => void,
): void {
  for (const s of segments) {
    const first = window ? lowerBound(s.x, window.from) : 0;
    for (let i = first; i < s.n; i++) {
      if (window && s.x[i]! > window.to) break;
      const min = s.min[i]!;
      if (min === min) visit(min, s.max[i]!);
    }
  }
}
