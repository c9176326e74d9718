/** A stretch of x, and the points of a segment in it. */
import type { Segment } from "../decode";

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

/** Places of the first point in the window and of the one behind its last. */
export function pointsIn(s: Segment, window: Window | null): readonly [first: number, end: number] {
  if (!window) return [0, s.n];
  let end = lowerBound(s.x, window.to);
  while (end < s.n && s.x[end]! <= window.to) end++;
  return [lowerBound(s.x, window.from), end];
}

export function eachPoint(
  segments: readonly Segment[],
  window: Window | null,
  visit: (min: number, max: number) => void,
): void {
  for (const s of segments) {
    const [first, end] = pointsIn(s, window);
    for (let i = first; i < end; i++) {
      const min = s.min[i]!;
      if (min === min) visit(min, s.max[i]!);
    }
  }
}

/** The values of the smoothed line, where it is drawn: not across a gap. */
export function eachSmoothed(
  segments: readonly Segment[],
  window: Window | null,
  visit: (value: number) => void,
): void {
  for (const s of segments) {
    if (!s.current || !s.smoothed) continue;
    const [first, end] = pointsIn(s, window);
    for (let i = first; i < end; i++) {
      const value = s.smoothed[i]!;
      if (s.last[i]! === s.last[i]! && Number.isFinite(value)) visit(value);
    }
  }
}

/** Longer than this (s) and than so many usual intervals without a point: nothing was running. */
const DOWNTIME = 60;
const INTERVALS = 20;

const known = new WeakMap<Segment, number>();

/** On an axis of time: the longest stretch a line may bridge. Between two such points nothing was logged. */
export function longestBridge(s: Segment): number {
  let longest = known.get(s);
  if (longest === undefined) {
    const intervals = new Float64Array(Math.max(0, s.n - 1));
    for (let i = 0; i < intervals.length; i++) intervals[i] = s.x[i + 1]! - s.x[i]!;
    intervals.sort();
    const median = intervals[(intervals.length - 1) >> 1] ?? 0;
    longest = Math.max(DOWNTIME, INTERVALS * median);
    known.set(s, longest);
  }
  return longest;
}
