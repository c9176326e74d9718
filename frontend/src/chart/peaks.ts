/**
 * Lone peaks of the raw curve. In a faint band a spike one pixel wide is there but not seen, and the
 * smoothed line hides it; so it gets a stick up to its real value. This is drawing, not diagnosis:
 * no threshold here says whether a peak matters.
 */
export interface Peak {
  /** Index of the column. */
  readonly i: number;
  /** Height above its surroundings, in multiples of what counts as usual here. */
  readonly prominence: number;
}

const REACH = 12;
const LEFT = 3;
const RIGHT = 2;
const NEIGHBOURS = 40;

/** `height(i)` is the top of column i on a scale that grows upwards; NaN where there is none. */
export function lonePeaks(
  n: number,
  height: (i: number) => number,
  thickness: (i: number) => number,
  most: number,
): Peak[] {
  if (n < 2 * REACH) return [];
  const usualIn = (from: number, to: number) =>
    Math.max(
      2,
      median(from, to, thickness),
      4 * median(from + 1, to, (i) => Math.abs(height(i) - height(i - 1))),
    );
  const usual = usualIn(0, n);
  const peaks: Peak[] = [];
  for (let i = 1; i < n - 1; i++) {
    const top = height(i);
    if (!(top > height(i - 1)) || !(top >= height(i + 1))) continue;
    const left = lowest(height, i, -1, Math.max(0, i - REACH));
    const right = lowest(height, i, 1, Math.min(n - 1, i + REACH));
    const rise = Math.min((top - left) / LEFT, (top - right) / RIGHT);
    if (rise < usual) continue;
    // A stretch that is rough all along has no lone peaks, even in an otherwise quiet run.
    const here = Math.max(usual, usualIn(Math.max(0, i - NEIGHBOURS), Math.min(n, i + NEIGHBOURS)));
    if (rise >= here) peaks.push({ i, prominence: rise / here });
  }
  return peaks.sort((a, b) => b.prominence - a.prominence).slice(0, most);
}

/** The lowest top on one side; the peak's own height where a higher one is in reach. */
function lowest(height: (i: number) => number, i: number, step: 1 | -1, end: number): number {
  const top = height(i);
  let low = top;
  for (let k = i + step; k !== end + step; k += step) {
    const h = height(k);
    if (h > top) return top;
    if (h < low) low = h;
  }
  return low;
}

function median(from: number, to: number, value: (i: number) => number): number {
  const all: number[] = [];
  for (let i = from; i < to; i++) {
    const v = value(i);
    if (v === v) all.push(v);
  }
  all.sort((a, b) => a - b);
  return all[all.length >> 1] ?? 0;
}
