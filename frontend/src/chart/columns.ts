/**
 * From a segment to what a canvas can show of it: one entry per device pixel column that holds a
 * point, with the lowest, highest and last value in it. Only typed arrays, reused between calls.
 */
import type { Segment } from "../decode";
import { lowerBound } from "./window";

export interface Columns {
  n: number;
  /** Canvas px of the column's last point, unrounded. */
  x: Float64Array;
  lo: Float32Array;
  hi: Float32Array;
  last: Float32Array;
  smoothed: Float32Array;
  /** 1 where nothing was logged for so long before that no line may lead there. */
  broken: Uint8Array;
  /** Points per px where there are any: above about one half, single points can no longer be told apart. */
  density: number;
}

export function makeColumns(capacity: number): Columns {
  return {
    n: 0,
    x: new Float64Array(capacity),
    lo: new Float32Array(capacity),
    hi: new Float32Array(capacity),
    last: new Float32Array(capacity),
    smoothed: new Float32Array(capacity),
    broken: new Uint8Array(capacity),
    density: 0,
  };
}

let scratch = makeColumns(4096);

/** Where a line must not go on, though its points are finite. */
export interface Breaks {
  /** Any wider gap. */
  readonly gap: number;
  /** The gaps that hold one of these x. */
  readonly at: readonly number[];
}

export const NO_BREAKS: Breaks = { gap: Number.POSITIVE_INFINITY, at: [] };

/** x → canvas px is `x * scale + offset`, of the logarithm of x where `log`. */
export interface ToPixels {
  readonly scale: number;
  readonly offset: number;
  readonly log?: boolean;
  readonly breaks?: Breaks;
}

/** The result is valid until the next call. */
export function pixelColumns(
  segment: Segment,
  from: number,
  to: number,
  { scale, offset, log = false, breaks = NO_BREAKS }: ToPixels,
): Columns {
  const { x, min, max, last } = segment;
  const smoothed = segment.smoothed ?? last;
  // One point more on each side, so that lines reach the edges.
  let first = Math.max(0, lowerBound(x, from) - 1);
  // A log axis has no place for it.
  while (log && first < segment.n && x[first]! <= 0) first++;
  let end = lowerBound(x, to);
  while (end < segment.n && x[end]! <= to) end++;
  end = Math.min(segment.n, end + 1);

  if (scratch.x.length < end - first) scratch = makeColumns(Math.max(end - first, scratch.x.length * 2));
  const out = scratch;
  let n = 0;
  let column = Number.NaN;
  let fresh = true;
  for (let i = first; i < end; i++) {
    const px = (log ? Math.log10(x[i]!) : x[i]!) * scale + offset;
    const here = Math.floor(px);
    if (here !== column) {
      if (!fresh) n++;
      column = here;
      fresh = false;
      out.lo[n] = min[i]!;
      out.hi[n] = max[i]!;
      out.last[n] = last[i]!;
      out.smoothed[n] = smoothed[i]!;
      out.broken[n] = i > first && breaksIn(breaks, x[i - 1]!, x[i]!) ? 1 : 0;
    } else if (min[i]! === min[i]!) {
      // A finite value in this column: it wins over a gap seen before it.
      const unset = out.lo[n]! !== out.lo[n]!;
      if (unset || min[i]! < out.lo[n]!) out.lo[n] = min[i]!;
      if (unset || max[i]! > out.hi[n]!) out.hi[n] = max[i]!;
      out.last[n] = last[i]!;
      out.smoothed[n] = smoothed[i]!;
    }
    out.x[n] = px;
  }
  out.n = fresh ? 0 : n + 1;
  const width = out.n > 1 ? out.x[out.n - 1]! - out.x[0]! : 0;
  out.density = width > 0 ? (end - first - 1) / width : 0;
  return out;
}

const breaksIn = ({ gap, at }: Breaks, from: number, to: number): boolean =>
  to - from > gap || at.some((x) => from < x && x < to);
