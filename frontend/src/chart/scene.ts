/** Everything the painter needs to know, put together by the component. */
import type { Finding, RunInfo } from "../api";
import type { Segment } from "../decode";
import type { ChartRole, XAxis } from "../roles";
import type { Mode, Ranges, Scales, YRange } from "../state";
import type { ThemeName } from "../theme";
import type { Comparing } from "./compare";
import type { Window } from "./window";

export interface DrawnRun {
  readonly info: RunInfo;
  readonly run: string;
  /** Short name at the line's end. */
  readonly label: string;
  readonly colour: string;
}

/** How the roles share a frame; a panel has one role, and its title is outside of it. */
export type Layout = Mode | "panel";

export interface Scene {
  readonly segments: readonly Segment[];
  readonly runs: readonly DrawnRun[];
  readonly roles: readonly ChartRole[];
  readonly layout: Layout;
  readonly x: XAxis;
  readonly logX: boolean;
  readonly zoom: Window | null;
  readonly loaded: Window | null;
  readonly y: YRange;
  readonly scales: Scales;
  readonly ranges: Ranges;
  readonly smoothing: number;
  readonly totalSteps: number | null;
  /** Segments are still on their way. */
  readonly pending: boolean;
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
  /** The stretch of the finding that is selected. */
  readonly selected: Window | null;
  readonly theme: ThemeName;
  /** Where runs are laid against a baseline. */
  readonly comparing?: Comparing | undefined;
}

/** Widths and alphas by how crowded the chart is. */
export interface Density {
  readonly line: number;
  readonly band: number;
  readonly raw: number;
  readonly halo: boolean;
  readonly labels: boolean;
  /** What is left of the other runs while one is lit. */
  readonly others: number;
}

/** Up to so many runs each curve has room for itself. */
export const FEW_RUNS = 6;

/** What a restart superseded stands behind the raw data of the curve that took its place. */
export const SUPERSEDED = { line: 0.2, band: 0.6, steps: 0.35, stretch: 0.05 };

export function densityOf(runs: number, pixelRatio: number): Density {
  if (runs <= FEW_RUNS) return { line: 1.5, band: 0.2, raw: 0.28, halo: true, labels: true, others: 1 };
  if (runs <= 20) return { line: 1.25, band: 0.06, raw: 0, halo: false, labels: false, others: 0.6 };
  // At most one device pixel: the canvas has a much faster path for hairlines.
  return {
    line: 1 / pixelRatio,
    band: runs <= 50 ? 0.06 : 0,
    raw: 0,
    halo: false,
    labels: false,
    others: 0.6,
  };
}
