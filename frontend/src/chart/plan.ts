/**
 * The picture before any pixel: which zones, which ranges, which ticks, which stretch of x.
 * Pure, so that everything about the layout can be tested without a canvas.
 */
import type { Segment } from "../decode";
import { OVERLAY_ROLES, type OverlayRole, ROLE_STYLE, type XAxis } from "../roles";
import type { Mode, YRange } from "../state";
import { type Clipped, roleExtent, transformOf } from "./extent";
import { type Tick, xTicks, yTicks } from "./ticks";
import type { Window } from "./window";
import { type Band, laneBands, mergedBands, stretchedRange } from "./zones";

export interface PlanInput {
  readonly segments: readonly Segment[];
  readonly roles: readonly OverlayRole[];
  readonly mode: Mode;
  readonly x: XAxis;
  readonly zoom: Window | null;
  /** The stretch the segments were asked for; y ranges come from it while a new one is on its way. */
  readonly loaded: Window | null;
  readonly y: YRange;
  readonly totalSteps: number | null;
  /** Plot area, CSS px. */
  readonly width: number;
  readonly height: number;
  /** CSS px the labels at the line ends need. */
  readonly labelRoom: number;
}

export interface Zone {
  readonly role: OverlayRole;
  readonly band: Band;
  /** y scale over the whole plot height, transformed units. */
  readonly range: readonly [number, number];
  readonly ticks: readonly Tick[];
  readonly clipped: Clipped | null;
  readonly nonPositive: number;
  /** There is no finite value to draw. */
  readonly empty: boolean;
}

export interface Plan {
  readonly mode: Mode;
  readonly x: XAxis;
  readonly window: Window;
  readonly xTicks: readonly Tick[];
  readonly zones: readonly Zone[];
}

export const NAN_RUG = 8;
export const OVERFLOW_RUG = 4;
export const OVERFLOW_ROWS = 4;
const RUG_GAP = 2;
/** CSS px a tick label wants along its axis. */
const TICK_ROOM = { x: 92, loss: 42, lane: 20, merged: 54, log: 34 };

export function planOverlay(input: PlanInput): Plan {
  const { roles, mode, width, height } = input;
  const window = shownWindow(input);
  const bands = mode === "lanes" ? laneBands(roles, height) : mergedBands(roles, height);
  const zones = roles.map((role, i): Zone => {
    const band = bands[i]!;
    const own = input.segments.filter((s) => s.role === role);
    const extent = roleExtent(own, role, input.loaded, input.y);
    const [lo, hi] = extent.range ?? (ROLE_STYLE[role].transform === "linear" ? [0, 1] : [-1, 1]);
    const inner = mode === "lanes" ? withRoomForRugs(band, rugHeight(role, input)) : band;
    const size = inner.bottom - inner.top;
    const log = ROLE_STYLE[role].transform !== "linear";
    const merged = log ? TICK_ROOM.log : TICK_ROOM.merged;
    const room = mode === "merged" ? merged : role === "loss" ? TICK_ROOM.loss : TICK_ROOM.lane;
    const most = Math.max(2, Math.floor(size / room));
    return {
      role,
      band,
      range: stretchedRange(lo, hi, inner, height),
      ticks: extent.range ? yTicks(ROLE_STYLE[role].transform, role === "lr", lo, hi, most) : [],
      clipped: extent.clipped,
      nonPositive: extent.nonPositive,
      empty: extent.range === null,
    };
  });
  return {
    mode,
    x: input.x,
    window,
    xTicks: xTicks(input.x, window.from, window.to, Math.max(2, Math.floor(width / TICK_ROOM.x))),
    zones,
  };
}

function withRoomForRugs(band: Band, rug: number): Band {
  return { top: band.top + 6, bottom: Math.max(band.top + 6, band.bottom - 3 - rug) };
}

/** Height kept free at the bottom of a lane for the ticks of NaN and overflow. */
function rugHeight(role: OverlayRole, { segments }: PlanInput): number {
  let height = 0;
  if (segments.some((s) => s.role === role && s.nonfinite)) height += NAN_RUG + RUG_GAP;
  const rows = role === "loss_scale" ? overflowRuns(segments).length : 0;
  if (rows > 0) height += (rows <= OVERFLOW_ROWS ? rows : 1) * (OVERFLOW_RUG + RUG_GAP) + RUG_GAP;
  return height;
}

export function overflowRuns(segments: readonly Segment[]): string[] {
  const some = segments.filter((s) => s.role === "overflow" && s.max.some((v) => v > 0));
  return [...new Set(some.map((s) => s.run))];
}

/** Roles that somewhere were not finite, in the order of their rows in Merged, from the bottom. */
export const nonFiniteRoles = (segments: readonly Segment[]): OverlayRole[] =>
  OVERLAY_ROLES.filter((role) => segments.some((s) => s.role === role && s.nonfinite?.idx.length));

/** Merged has one row a role for what is not finite: its bottom, CSS px above the frame's. */
export const nonFiniteRow = (row: number): number => row * (NAN_RUG + RUG_GAP);

/** Bottom of the overflow row of a run, CSS px above the zone's bottom. */
export const overflowRow = (row: number): number => row * (OVERFLOW_RUG + RUG_GAP);

export function shownWindow(input: PlanInput): Window {
  if (input.zoom) return input.zoom;
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (const s of input.segments) {
    if (s.n === 0) continue;
    from = Math.min(from, s.x[0]!);
    to = Math.max(to, s.x[s.n - 1]!);
  }
  if (from > to) return { from: 0, to: 1 };
  if (from === to) {
    const around = input.x === "wall" ? 30 : Math.max(1, Math.abs(from) * 0.1);
    return { from: from - around, to: to + around };
  }
  // Counts are read from zero; a run that begins at step 1 of 20,000 is no reason not to.
  if (input.x !== "wall" && from > 0 && from < (to - from) * 0.05) from = 0;
  const data = to;
  const total = input.x === "step" ? input.totalSteps : null;
  // What is still to come is shown once it does not squeeze what is there.
  if (total !== null && total > to && to - from > 0.6 * (total - from)) to = total;
  const usable = Math.max(input.width * 0.5, input.width - input.labelRoom);
  to = Math.max(to, from + ((data - from) * input.width) / usable);
  return { from, to };
}

/** Roles at least one run has; a loss scale lane also holds the overflow ticks. */
export function presentRoles(
  runs: readonly { readonly roles: Partial<Record<string, { readonly points: number | null }>> }[],
): OverlayRole[] {
  // Points that are not counted (null) are points.
  const has = (role: string) => runs.some((r) => r.roles[role] !== undefined && r.roles[role]?.points !== 0);
  return OVERLAY_ROLES.filter((role) => has(role));
}

/** A zone's mapping from value to px below the plot's top, in the given px per plot height. */
export function zoneScale(zone: Zone, top: number, height: number) {
  const [min, max] = zone.range;
  const a = -height / (max - min);
  return { transform: transformOf(ROLE_STYLE[zone.role].transform), a, b: top - a * max };
}
