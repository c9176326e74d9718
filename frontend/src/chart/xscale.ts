/** Where a position on the x axis lies in the plot, on a linear or a logarithmic axis. */
import { isCount, type XAxis } from "../roles";
import type { Window } from "./window";

export interface XScale {
  readonly axis: XAxis;
  readonly log: boolean;
  readonly window: Window;
  /** The plot's ends in the axis' own units: logarithms on a log axis. */
  readonly ends: readonly [number, number];
  /** 0 at the left end of the plot, 1 at the right; not finite for what a log axis has no place for. */
  fraction(x: number): number;
  /** The position at a fraction of the plot's width. */
  at(fraction: number): number;
}

export function xScale(axis: XAxis, log: boolean, window: Window): XScale {
  const [t0, t1] = log ? [Math.log10(window.from), Math.log10(window.to)] : [window.from, window.to];
  const span = t1 - t0;
  return {
    axis,
    log,
    window,
    ends: [t0, t1],
    fraction: log ? (x) => (Math.log10(x) - t0) / span : (x) => (x - t0) / span,
    at: log ? (fraction) => 10 ** (t0 + fraction * span) : (fraction) => t0 + fraction * span,
  };
}

/** The window that a gesture leads to, given as fractions of the plot's width. */
export const windowOf = (x: XScale, from: number, to: number): Window => ({ from: x.at(from), to: x.at(to) });

/** Counts have no fractions: a window over them begins and ends at whole ones. */
export function wholeWindow({ from, to }: Window, axis: XAxis): Window {
  if (!isCount(axis)) return { from, to };
  const low = Math.floor(from);
  return { from: low, to: Math.max(low + 1, Math.ceil(to)) };
}
