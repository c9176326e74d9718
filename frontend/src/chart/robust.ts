/** The range in which most of a metric lies, whatever a few points or one diverged run do. */
import type { Segment } from "../decode";
import { type OverlayRole, ROLE_STYLE } from "../roles";
import { eachPoint, type Window } from "./window";

const MARGIN = 0.1;
/** How many interquartile ranges above (below) the quartiles still count as the run's own. */
const FENCE = 8;
/** A run reaching this many times as high as the median run has left the others' company. */
const APART = 4;

/** Plain (untransformed) values; null where every value matters or none is known. */
export function robustRange(
  segments: readonly Segment[],
  role: OverlayRole,
  window: Window | null,
): [number, number] | null {
  // Schedules and scales hold their values on purpose: there are no outliers in them.
  if (ROLE_STYLE[role].shape === "steps") return null;
  const ranges: [number, number][] = [];
  for (const run of new Set(segments.map((s) => s.run))) {
    const own = segments.filter((s) => s.run === run);
    const range = runRange(own, window);
    if (range) ranges.push(range);
  }
  if (ranges.length === 0) return null;
  const low = Math.min(...ranges.map(([lo]) => lo));
  const highs = ranges.map(([, hi]) => hi).sort((a, b) => a - b);
  const middle = highs[(highs.length - 1) >> 1]!;
  const limit = highs.length >= 3 ? low + APART * (middle - low) : Number.POSITIVE_INFINITY;
  const high = Math.max(...highs.filter((hi) => hi <= limit), middle);
  if (ROLE_STYLE[role].transform !== "linear") {
    if (low <= 0) return null;
    const factor = (high / low) ** MARGIN;
    return [low / factor, high * factor];
  }
  const margin = (high - low) * MARGIN || Math.abs(high) * MARGIN || 1;
  return [low - margin, high + margin];
}

function runRange(segments: readonly Segment[], window: Window | null): [number, number] | null {
  const current = segments.filter((s) => s.current);
  const tops: number[] = [];
  eachPoint(current, window, (_min, max) => tops.push(max));
  if (tops.length === 0) return null;
  tops.sort((a, b) => a - b);
  const quantile = (q: number) => tops[Math.min(tops.length - 1, Math.floor(q * tops.length))]!;
  const [q1, q3] = [quantile(0.25), quantile(0.75)];
  const reach = FENCE * (q3 - q1);
  // Percentiles over all points come from the server; those here are over what is drawn.
  const p1 = Math.min(...current.map((s) => s.p1 ?? Number.POSITIVE_INFINITY), q1);
  const p99 = Math.max(...current.map((s) => s.p99 ?? Number.NEGATIVE_INFINITY), q3);
  return [Math.max(p1, q1 - reach), Math.min(p99, q3 + reach)];
}
