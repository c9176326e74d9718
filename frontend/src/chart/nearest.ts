/** What was logged nearest to the cursor: really logged points, never values read off a line. */
import type { Segment } from "../decode";
import { OVERLAY_ROLES, type OverlayRole, ROLE_STYLE } from "../roles";
import { lowerBound } from "./window";

export interface Cell {
  readonly x: number;
  /** NaN or an infinity where that was logged. */
  readonly value: number;
}

export interface Reading {
  readonly run: string;
  readonly superseded: boolean;
  readonly x: number;
  readonly cells: Partial<Record<OverlayRole, Cell>>;
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
): Readings {
  const rows: Reading[] = [];
  let ended = 0;
  for (const run of runs) {
    const own = segments.filter((s) => s.run === run && s.n > 0);
    const now = readRun(
      own.filter((s) => s.current),
      run,
      false,
      x,
      reach,
    );
    if (now) rows.push(now);
    else if (own.some((s) => s.current && s.x[s.n - 1]! < x)) ended++;
    const old = own.filter((s) => !s.current && s.x[0]! - reach / 3 <= x && x <= s.x[s.n - 1]! + reach / 3);
    const before = readRun(old, run, true, x, reach);
    if (before) rows.push(before);
  }
  return { rows, ended };
}

function readRun(
  segments: readonly Segment[],
  run: string,
  superseded: boolean,
  x: number,
  reach: number,
): Reading | null {
  let anchor: number | null = null;
  const cells: Partial<Record<OverlayRole, Cell>> = {};
  for (const role of OVERLAY_ROLES) {
    const own = segments.filter((s) => s.role === role);
    const cell: Cell | null = readRole(
      own,
      anchor ?? x,
      reach,
      anchor !== null && ROLE_STYLE[role].shape === "steps",
    );
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

export function loggedValue(s: Segment, i: number): number {
  const last = s.last[i]!;
  if (last === last || !s.nonfinite) return last;
  const k = s.nonfinite.idx.indexOf(i);
  if (k < 0 || s.nonfinite.nan[k]! > 0) return Number.NaN;
  return s.nonfinite.posinf[k]! > 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
}
