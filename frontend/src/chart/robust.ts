/** The range in which most of a metric lies, whatever a few points or one diverged run do. */
import type { Segment } from "../decode";
import { type ChartRole, ROLE_STYLE, type Transform } from "../roles";
import { eachPoint, eachSmoothed, pointsIn, type Window } from "./window";

const MARGIN = 0.1;
/** How many interquartile ranges above (below) the quartiles still count as the run's own. */
const FENCE = 8;
/** A run reaching this many times as high as the median run has left the others' company. */
const APART = 4;
/** So many times a metric's own size are orders of magnitude. */
const FAR = 100;

/** Plain (untransformed) values; null where every value matters or none is known. */
export function robustRange(
  segments: readonly Segment[],
  role: ChartRole,
  transform: Transform,
  window: Window | null,
): [number, number] | null {
  // Schedules and scales hold their values on purpose: there are no outliers in them.
  if (ROLE_STYLE[role].shape === "steps") return null;
  const ranges: [number, number][] = [];
  for (const own of runsOf(segments)) {
    const range = runRange(own, window);
    if (range) ranges.push(range);
  }
  if (ranges.length === 0) return null;
  const low = Math.min(...ranges.map(([lo]) => lo));
  const highs = ranges.map(([, hi]) => hi);
  const high = Math.max(...inCompany(highs, low));
  if (transform !== "linear") {
    if (low <= 0) return null;
    const factor = (high / low) ** MARGIN;
    return [low / factor, high * factor];
  }
  const margin = (high - low) * MARGIN || Math.abs(high) * MARGIN || 1;
  return [low - margin, high + margin];
}

/** Without the heights that are far above those of most runs. */
function inCompany(highs: readonly number[], low: number): number[] {
  const middle = [...highs].sort((a, b) => a - b)[(highs.length - 1) >> 1]!;
  const limit = highs.length >= 3 ? low + APART * (middle - low) : Number.POSITIVE_INFINITY;
  return highs.filter((hi) => hi <= Math.max(limit, middle));
}

/**
 * The range wide enough for the smoothed lines as well: what is drawn boldest must not leave the frame. A line
 * that is orders of magnitude away, or that left the other runs' company, would flatten everything else.
 */
export function withSmoothedLines(
  [low, high]: [number, number],
  segments: readonly Segment[],
  window: Window | null,
): [number, number] {
  const lines: [number, number][] = [];
  for (const own of runsOf(segments)) {
    let lo = Number.POSITIVE_INFINITY;
    let hi = Number.NEGATIVE_INFINITY;
    eachSmoothed(own, window, (v) => {
      lo = Math.min(lo, v);
      hi = Math.max(hi, v);
    });
    if (lo <= hi) lines.push([lo, hi]);
  }
  if (lines.length === 0) return [low, high];
  const company = inCompany(
    lines.map(([, hi]) => hi),
    Math.min(low, ...lines.map(([lo]) => lo)),
  );
  const top = Math.max(...company);
  const most = farthest([low, high], segments, window);
  const [lowest, highest] = [low, high];
  for (const [lo, hi] of lines) {
    if (hi > top || Math.max(highest, hi) - Math.min(lowest, lo) > most) continue;
    low = Math.min(low, lo);
    high = Math.max(high, hi);
  }
  return [low, high];
}

/**
 * How far values may spread before those in `range` are nothing beside them. The measure is their own size and
 * where the runs began, not their noise: a loss that fell from 14 to 0.3 did nothing out of the ordinary.
 */
export function farthest(
  [low, high]: readonly [number, number],
  segments: readonly Segment[],
  window: Window | null,
): number {
  const begins: number[] = [];
  for (const own of runsOf(segments)) {
    const before = begins.length;
    eachPoint(
      own.filter((s) => s.current),
      window,
      (_min, max) => {
        if (begins.length === before) begins.push(max);
      },
    );
  }
  begins.sort((a, b) => a - b);
  const begin = begins[(begins.length - 1) >> 1] ?? low;
  return FAR * Math.max(high - low, Math.abs(high), begin - low);
}

export function runsOf(segments: readonly Segment[]): Segment[][] {
  const runs = new Map<string, Segment[]>();
  for (const s of segments) {
    const own = runs.get(s.run);
    if (own) own.push(s);
    else runs.set(s.run, [s]);
  }
  return [...runs.values()];
}

function runRange(segments: readonly Segment[], window: Window | null): [number, number] | null {
  const current = segments.filter((s) => s.current);
  const tops = topsOf(current, window);
  if (tops.length === 0) return null;
  tops.sort();
  const quantile = (q: number) => tops[Math.min(tops.length - 1, Math.floor(q * tops.length))]!;
  const [q1, q3] = [quantile(0.25), quantile(0.75)];
  const reach = FENCE * (q3 - q1);
  // Percentiles over all points come from the server; those here are over what is drawn.
  const p1 = Math.min(...current.map((s) => s.p1 ?? Number.POSITIVE_INFINITY), q1);
  const p99 = Math.max(...current.map((s) => s.p99 ?? Number.NEGATIVE_INFINITY), q3);
  return [Math.max(p1, q1 - reach), Math.min(p99, q3 + reach)];
}

function topsOf(segments: readonly Segment[], window: Window | null): Float32Array {
  let size = 0;
  for (const s of segments) {
    const [first, end] = pointsIn(s, window);
    size += Math.max(0, end - first);
  }
  const tops = new Float32Array(size);
  let n = 0;
  eachPoint(segments, window, (_min, max) => {
    tops[n++] = max;
  });
  return tops.subarray(0, n);
}
