/** What was logged nearest to the cursor: really logged points, never values read off a line. */
import type { Segment } from "../decode";
import { CHART_ROLES, type ChartRole, ROLE_STYLE } from "../roles";
import { seriesIndex } from "./series";
import { lowerBound, type Window } from "./window";

export interface Cell {
  readonly x: number;
  /** NaN or an infinity where that was logged. */
  readonly value: number;
}

export interface Reading {
  readonly run: string;
  readonly superseded: boolean;
  readonly x: number;
  readonly cells: Partial<Record<ChartRole, Cell>>;
}

export interface Readings {
  readonly rows: readonly Reading[];
  /** Runs whose last point lies before the cursor. */
  readonly ended: number;
}

/** Runs, not rows: one with a superseded branch has two. */
export function countRuns(rows: readonly Reading[]): number {
  return new Set(rows.filter((row) => !row.superseded).map((row) => row.run)).size;
}

/** `reach` is how far (in x) outside of a run's points the cursor still counts as at it. */
export function readAt(
  segments: readonly Segment[],
  runs: readonly string[],
  x: number,
  reach: number,
  roles: readonly ChartRole[] = CHART_ROLES,
): Readings {
  const index = seriesIndex(segments);
  const rows: Reading[] = [];
  let ended = 0;
  for (const run of runs) {
    const own = roles.map((role) => [role, index.of(role, run).filter((s) => s.n > 0)] as const);
    const only = (keep: (s: Segment) => boolean) =>
      own.map(([role, list]) => [role, list.filter(keep)] as const);
    const now = readRun(
      only((s) => s.current),
      run,
      false,
      x,
      reach,
    );
    if (now) rows.push(now);
    else if (own.some(([, list]) => list.some((s) => s.current && s.x[s.n - 1]! < x))) ended++;
    const old = only((s) => !s.current && s.x[0]! - reach / 3 <= x && x <= s.x[s.n - 1]! + reach / 3);
    const before = readRun(old, run, true, x, reach);
    if (before) rows.push(before);
  }
  return { rows, ended };
}

function readRun(
  series: readonly (readonly [ChartRole, readonly Segment[]])[],
  run: string,
  superseded: boolean,
  x: number,
  reach: number,
): Reading | null {
  let anchor: number | null = null;
  const cells: Partial<Record<ChartRole, Cell>> = {};
  for (const [role, own] of series) {
    const held = anchor !== null && ROLE_STYLE[role].shape === "steps";
    const cell: Cell | null = readRole(own, anchor ?? x, reach, held);
    if (!cell) continue;
    anchor ??= cell.x;
    cells[role] = cell;
  }
  return anchor === null ? null : { run, superseded, x: anchor, cells };
}

function readRole(segments: readonly Segment[], x: number, reach: number, held: boolean): Cell | null {
  let best: Cell | null = null;
  let distance = Number.POSITIVE_INFINITY;
  let first = Number.POSITIVE_INFINITY;
  let end = Number.NEGATIVE_INFINITY;
  for (const s of segments) {
    first = Math.min(first, s.x[0]!);
    end = Math.max(end, s.x[s.n - 1]!);
    const after = lowerBound(s.x, x);
    for (const i of [after - 1, after]) {
      if (i < 0 || i >= s.n) continue;
      const away = Math.abs(s.x[i]! - x);
      // A held value is the one logged at or before the position.
      const later = held && s.x[i]! > x ? reach : 0;
      if (away + later < distance) {
        distance = away + later;
        best = { x: s.x[i]!, value: loggedValue(s, i) };
      }
    }
  }
  return x >= first - reach && x <= end + reach ? best : null;
}

/** The value logged nearest to a position; null before a run's first point and after its last. */
export function loggedAt(segments: readonly Segment[], x: number): number | null {
  const current = segments.filter((s) => s.current && s.n > 0);
  return readRole(current, x, 0, false)?.value ?? null;
}

export function loggedValue(s: Segment, i: number): number {
  const last = s.last[i]!;
  if (last === last || !s.nonfinite) return last;
  const k = s.nonfinite.idx.indexOf(i);
  if (k < 0 || s.nonfinite.nan[k]! > 0) return Number.NaN;
  return s.nonfinite.posinf[k]! > 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
}

/**
 * The position `by` logged points away from `from` (the nearest one counts as where it is), within the window.
 * Without a `from`, the first or the last one.
 */
export function stepFrom(
  segments: readonly Segment[],
  window: Window,
  from: number | null,
  by: number,
): number | null {
  const step = by < 0 ? -1 : 1;
  const inside = (x: number | null) => (x !== null && x >= window.from && x <= window.to ? x : null);
  if (from === null) {
    const edge = by < 0 ? window.to : window.from;
    return inside(nextPoint(segments, edge, step, true));
  }
  const before = nextPoint(segments, from, -1, true);
  const after = nextPoint(segments, from, 1, true);
  let at = after === null || (before !== null && from - before < after - from) ? before : after;
  for (let k = 0; k < Math.abs(by) && at !== null; k++) {
    const next = inside(nextPoint(segments, at, step, false));
    if (next === null) break;
    at = next;
  }
  return inside(at);
}

/** The nearest point on one side of a position, or at it where that counts. */
function nextPoint(segments: readonly Segment[], x: number, side: 1 | -1, at: boolean): number | null {
  let best: number | null = null;
  for (const s of segments) {
    let i = lowerBound(s.x, x);
    if (side > 0) {
      while (!at && i < s.n && s.x[i]! <= x) i++;
    } else if (!(at && i < s.n && s.x[i]! === x)) i--;
    if (i < 0 || i >= s.n) continue;
    const here = s.x[i]!;
    if (best === null || (here - best) * side < 0) best = here;
  }
  return best;
}
