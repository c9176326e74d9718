/**
 * The picture before any pixel: which zones, which ranges, which ticks, which stretch of x.
 * Pure, so that everything about the layout can be tested without a canvas.
 */
import type { Segment } from "../decode";
import type { ChartRole, Transform, XAxis } from "../roles";
import type { Ranges, Scales, YRange } from "../state";
import { type Comparing, floorOf, referenced, relabelled } from "./compare";
import { type Clipped, type Extent, roleExtent, transformFor, transformOf } from "./extent";
import type { Layout } from "./scene";
import { seriesIndex } from "./series";
import { type Tick, xTicks, yTicks } from "./ticks";
import type { Window } from "./window";
import { type XScale, xScale } from "./xscale";
import { type Band, laneBands, mergedBands, stretchedRange } from "./zones";

export interface PlanInput {
  readonly segments: readonly Segment[];
  readonly roles: readonly ChartRole[];
  readonly layout: Layout;
  readonly x: XAxis;
  readonly logX: boolean;
  readonly zoom: Window | null;
  /** The stretch the segments were asked for; y ranges come from it while a new one is on its way. */
  readonly loaded: Window | null;
  readonly y: YRange;
  readonly scales: Scales;
  readonly ranges: Ranges;
  readonly totalSteps: number | null;
  /** Plot area, CSS px. */
  readonly width: number;
  readonly height: number;
  /** CSS px the labels at the line ends need. */
  readonly labelRoom: number;
  readonly comparing?: Comparing | undefined;
}

export interface Zone {
  readonly role: ChartRole;
  readonly band: Band;
  readonly transform: Transform;
  /** What the band shows, transformed units. */
  readonly shown: readonly [number, number];
  /** y scale over the whole plot height, transformed units. */
  readonly range: readonly [number, number];
  readonly ticks: readonly Tick[];
  readonly clipped: Clipped | null;
  readonly nonPositive: number;
  /** Lower values are drawn at this one, in the role's unit. */
  readonly floor: number | null;
  /** There is no finite value to draw. */
  readonly empty: boolean;
}

export interface Plan {
  readonly layout: Layout;
  readonly x: XScale;
  readonly window: Window;
  readonly xTicks: readonly Tick[];
  readonly zones: readonly Zone[];
}

export const NAN_RUG = 8;
export const OVERFLOW_RUG = 4;
export const OVERFLOW_ROWS = 4;
const RUG_GAP = 2;
/** CSS px a tick label wants along its axis. */
/** CSS px that a label is high. */
const TICK_LINE = 14;
const TICK_ROOM = { x: 92, loss: 42, lane: 20, panel: 28, merged: 54, log: 34 };

export function planChart(input: PlanInput): Plan {
  const { roles, layout, width, height } = input;
  const x = shownX(input);
  const bands = layout === "merged" ? mergedBands(roles, height) : laneBands(roles, height);
  const zones = roles.map((role, i): Zone => {
    const band = bands[i]!;
    const { transform, extent: own } = extentOf(input, role);
    const extent = referenced(own, role, input);
    const [lo, hi] = extent.range ?? (transform === "linear" ? [0, 1] : [-1, 1]);
    const inner = layout === "merged" ? band : withRoomForRugs(band, rugHeight(role, input));
    const size = inner.bottom - inner.top;
    const most = Math.max(2, Math.floor(size / tickRoom(layout, role, transform)));
    return {
      role,
      band,
      transform,
      shown: [lo, hi],
      range: stretchedRange(lo, hi, inner, height),
      ticks: extent.range ? relabelled(role, someTicks(transform, role === "lr", lo, hi, most, size)) : [],
      clipped: extent.clipped,
      nonPositive: extent.nonPositive,
      floor: floorOf(role, input),
      empty: extent.range === null,
    };
  });
  const ticks = Math.max(2, Math.floor(width / TICK_ROOM.x));
  return { layout, x, window: x.window, xTicks: xTicks(x, ticks), zones };
}

/** One tick alone says nothing about the scale. */
function someTicks(
  transform: Transform,
  isRate: boolean,
  lo: number,
  hi: number,
  most: number,
  size: number,
): Tick[] {
  const ticks = yTicks(transform, isRate, lo, hi, most);
  if (ticks.length > 1) return ticks;
  const more = yTicks(transform, isRate, lo, hi, 2 * most);
  return more.length * TICK_LINE <= size ? more : ticks;
}

function tickRoom(layout: Layout, role: ChartRole, transform: Transform): number {
  if (layout === "merged") return transform === "linear" ? TICK_ROOM.merged : TICK_ROOM.log;
  if (layout === "panel") return TICK_ROOM.panel;
  return role === "loss" ? TICK_ROOM.loss : TICK_ROOM.lane;
}

interface Measured {
  readonly transform: Transform;
  readonly extent: Extent;
}
const measured = new WeakMap<readonly Segment[], Map<string, Measured>>();

/** Looking through all points takes a while, and a plan is made anew at every change of size. */
function extentOf(input: PlanInput, role: ChartRole): Measured {
  const { segments, loaded, y, scales, ranges } = input;
  const key = JSON.stringify([role, loaded, y, scales[role], ranges[role]]);
  let known = measured.get(segments);
  if (!known) {
    known = new Map();
    measured.set(segments, known);
  }
  let found = known.get(key);
  if (!found) {
    const own = seriesIndex(segments).role(role);
    const transform = transformFor(role, scales, own);
    found = {
      transform,
      extent: roleExtent(own, { role, transform, window: loaded, y, range: ranges[role] }),
    };
    known.set(key, found);
  }
  return found;
}

function withRoomForRugs(band: Band, rug: number): Band {
  return { top: band.top + 6, bottom: Math.max(band.top + 6, band.bottom - 3 - rug) };
}

/** Height kept free at the bottom of a lane for the ticks of NaN and overflow. */
function rugHeight(role: ChartRole, { segments }: PlanInput): number {
  const index = seriesIndex(segments);
  let height = 0;
  if (index.nonFiniteRoles.includes(role)) height += NAN_RUG + RUG_GAP;
  const rows = role === "loss_scale" ? index.overflowRuns.length : 0;
  if (rows > 0) height += (rows <= OVERFLOW_ROWS ? rows : 1) * (OVERFLOW_RUG + RUG_GAP) + RUG_GAP;
  return height;
}

/** Roles of a frame that somewhere were not finite, in the order of their rows in Merged, from the bottom. */
export const nonFiniteRoles = (scene: {
  readonly segments: readonly Segment[];
  readonly roles: readonly ChartRole[];
}): readonly ChartRole[] =>
  scene.roles.filter((role) => seriesIndex(scene.segments).nonFiniteRoles.includes(role));

/** Merged has one row a role for what is not finite: its bottom, CSS px above the frame's. */
export const nonFiniteRow = (row: number): number => row * (NAN_RUG + RUG_GAP);

/** Bottom of the overflow row of a run, CSS px above the zone's bottom. */
export const overflowRow = (row: number): number => row * (OVERFLOW_RUG + RUG_GAP);

export function shownX(input: PlanInput): XScale {
  const log = input.logX;
  const begin = log ? firstPositive(input.segments) : Number.NEGATIVE_INFINITY;
  if (input.zoom && !(log && input.zoom.to <= begin)) {
    const { from, to } = input.zoom;
    return xScale(input.x, log, { from: log && from <= 0 ? begin : from, to });
  }
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (const s of input.segments) {
    if (s.n === 0) continue;
    from = Math.min(from, Math.max(begin, s.x[0]!));
    to = Math.max(to, s.x[s.n - 1]!);
  }
  if (from > to) return xScale(input.x, log, log ? { from: 1, to: 10 } : { from: 0, to: 1 });
  if (from === to) {
    const around = input.x === "wall" ? 30 : Math.max(1, Math.abs(from) * 0.1);
    const window = log ? { from: from / 2, to: to * 2 } : { from: from - around, to: to + around };
    return xScale(input.x, log, window);
  }
  // Counts are read from zero; a run that begins at step 1 of 20,000 is no reason not to.
  if (input.x !== "wall" && !log && from > 0 && from < (to - from) * 0.05) from = 0;
  const usable = Math.max(input.width * 0.5, input.width - input.labelRoom);
  const withLabels = usable < input.width ? xScale(input.x, log, { from, to }).at(input.width / usable) : to;
  const total = input.x === "step" ? input.totalSteps : null;
  // What is still to come is shown once it does not squeeze what is there.
  if (total !== null && total > to && to - from > 0.6 * (total - from)) to = total;
  return xScale(input.x, log, { from, to: Math.max(to, withLabels) });
}

/** The lowest position that a log axis has a place for. */
function firstPositive(segments: readonly Segment[]): number {
  let lowest = Number.POSITIVE_INFINITY;
  for (const s of segments) {
    for (let i = 0; i < s.n; i++) {
      if (s.x[i]! > 0) {
        lowest = Math.min(lowest, s.x[i]!);
        break;
      }
    }
  }
  return Number.isFinite(lowest) ? lowest : 1;
}

/** Points that a log x axis has no place for. */
export function leftOfLog(segments: readonly Segment[], roles: readonly ChartRole[]): number {
  let n = 0;
  for (const s of segments) {
    if (!roles.includes(s.role as ChartRole)) continue;
    for (let i = 0; i < s.n && s.x[i]! <= 0; i++) n++;
  }
  return n;
}

/** Roles of `among` that at least one run has. */
export function presentRoles<R extends ChartRole>(
  runs: readonly { readonly roles: Partial<Record<string, { readonly points: number | null }>> }[],
  among: readonly R[],
): R[] {
  // Points that are not counted (null) are points.
  const has = (role: string) => runs.some((r) => r.roles[role] !== undefined && r.roles[role]?.points !== 0);
  return among.filter((role) => has(role));
}

/** A zone's mapping from value to px below the plot's top, in the given px per plot height. */
export function zoneScale(zone: Zone, top: number, height: number) {
  const [min, max] = zone.range;
  const a = -height / (max - min);
  const { floor } = zone;
  const f = transformOf(zone.transform);
  return { transform: floor === null ? f : (v: number) => f(Math.max(v, floor)), a, b: top - a * max };
}

/** The value (in the role's unit) at a height of the plot, CSS px from its top. */
export function valueAt(zone: Zone, y: number, height: number): number {
  const [min, max] = zone.range;
  return untransformed(zone, max - (y / height) * (max - min));
}

const untransformed = ({ transform }: Zone, t: number): number =>
  transform === "linear" ? t : (transform === "log2" ? 2 : 10) ** t;

/** The y ranges that a plan shows, in the roles' own units. */
export const rangesOf = (plan: Plan): Ranges =>
  Object.fromEntries(
    plan.zones.filter((z) => !z.empty).map((z) => [z.role, z.shown.map((t) => untransformed(z, t))]),
  );
