/**
 * Drawing on the canvas, in device pixels. Bands are one vertical stroke per pixel column (about
 * three times cheaper than filled polygons), lines are at most one point per column, and nothing is
 * drawn across a gap: NaN breaks a line.
 */
import type { Columns } from "./columns";

/** y value → canvas px. */
export interface YScale {
  readonly transform: (v: number) => number;
  readonly a: number;
  readonly b: number;
}

export const toPixel = (y: YScale, v: number): number => y.a * y.transform(v) + y.b;

export interface Stroke {
  readonly colour: string;
  readonly width: number;
  readonly alpha: number;
  readonly dash?: readonly number[];
}

function stroke(ctx: CanvasRenderingContext2D, s: Stroke): void {
  ctx.strokeStyle = s.colour;
  ctx.lineWidth = s.width;
  ctx.globalAlpha = s.alpha;
  ctx.setLineDash(s.dash ? [...s.dash] : []);
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
}

/** Wider holes than this are left open in a band: they are stretches without a point. */
const BRIDGE = 5;

export function paintBand(
  ctx: CanvasRenderingContext2D,
  c: Columns,
  y: YScale,
  bridge: number,
  style: Omit<Stroke, "width">,
): void {
  ctx.beginPath();
  bandColumns(c, y, bridge, (x, top, bottom) => column(ctx, x, top, bottom));
  stroke(ctx, { ...style, width: 1 });
}

/** What a band covers, by pixel column. */
export type Cover = Map<number, readonly [top: number, bottom: number]>;

export function coverOf(c: Columns, y: YScale, bridge: number, cover: Cover): void {
  bandColumns(c, y, bridge, (x, top, bottom) => cover.set(x, [top, bottom]));
}

/** A band as if behind another: only what that one leaves free, so that no ink adds up where they overlap. */
export function paintBandBehind(
  ctx: CanvasRenderingContext2D,
  c: Columns,
  y: YScale,
  bridge: number,
  style: Omit<Stroke, "width">,
  front: Cover,
): void {
  ctx.beginPath();
  bandColumns(c, y, bridge, (x, top, bottom) => {
    const covered = front.get(x);
    if (!covered) return column(ctx, x, top, bottom);
    if (top < covered[0]) column(ctx, x, top, Math.min(bottom, covered[0]));
    if (bottom > covered[1]) column(ctx, x, Math.max(top, covered[1]), bottom);
  });
  stroke(ctx, { ...style, width: 1 });
}

function bandColumns(
  c: Columns,
  y: YScale,
  bridge: number,
  visit: (x: number, top: number, bottom: number) => void,
): void {
  let px = 0;
  let top = Number.NaN;
  let bottom = Number.NaN;
  let before = Number.NaN;
  for (let i = 0; i < c.n; i++) {
    const x = Math.floor(c.x[i]!);
    let hi = toPixel(y, c.hi[i]!);
    // On a log axis a bucket may reach down to zero: then it ends at its highest value.
    let lo = toPixel(y, c.lo[i]!);
    if (!Number.isFinite(lo)) lo = hi;
    const after = toPixel(y, c.last[i]!);
    const near = x - px <= Math.max(BRIDGE, bridge) && !c.broken[i];
    if (near && Number.isFinite(before) && hi === hi) {
      // Reaching back to the column before keeps single points from falling apart into dots.
      hi = Math.min(hi, before);
      lo = Math.max(lo, before);
      for (let k = 1; k < x - px; k++) {
        const t = k / (x - px);
        visit(px + k, top + (hi - top) * t, bottom + (lo - bottom) * t);
      }
    }
    if (hi === hi) visit(x, hi, lo);
    top = hi;
    bottom = lo;
    before = after;
    px = x;
  }
}

function column(ctx: CanvasRenderingContext2D, x: number, top: number, bottom: number): void {
  const short = bottom - top < 1 ? 0.5 : 0;
  ctx.moveTo(x + 0.5, top - short);
  ctx.lineTo(x + 0.5, bottom + short);
}

/** Between columns that are farther apart than a band reaches: the line through their points. */
export function paintSparse(ctx: CanvasRenderingContext2D, c: Columns, y: YScale, style: Stroke): void {
  ctx.beginPath();
  for (let i = 1; i < c.n; i++) {
    if (c.x[i]! - c.x[i - 1]! <= BRIDGE || c.broken[i]) continue;
    const from = toPixel(y, c.last[i - 1]!);
    const to = toPixel(y, c.last[i]!);
    if (!Number.isFinite(from) || !Number.isFinite(to)) continue;
    ctx.moveTo(c.x[i - 1]!, from);
    ctx.lineTo(c.x[i]!, to);
  }
  stroke(ctx, style);
}

/** A line through one value per column; lone points between gaps become dots. */
export function paintLine(
  ctx: CanvasRenderingContext2D,
  c: Columns,
  values: Float32Array,
  y: YScale,
  style: Stroke,
  halo: Stroke | null,
  dot: number,
): void {
  ctx.beginPath();
  const dots: number[] = [];
  let open = false;
  for (let i = 0; i < c.n; i++) {
    const py = toPixel(y, drawable(c, values, i));
    if (!Number.isFinite(py)) {
      open = false;
      continue;
    }
    if (c.broken[i]) open = false;
    if (open) ctx.lineTo(c.x[i]!, py);
    else ctx.moveTo(c.x[i]!, py);
    const goesOn = i + 1 < c.n && !c.broken[i + 1];
    if (!open && !Number.isFinite(toPixel(y, goesOn ? drawable(c, values, i + 1) : Number.NaN))) {
      dots.push(c.x[i]!, py);
    }
    open = true;
  }
  if (halo) stroke(ctx, halo);
  stroke(ctx, style);
  paintDots(ctx, dots, dot, style);
}

/** The smoothed value goes on through a gap; the drawn line must not. */
const drawable = (c: Columns, values: Float32Array, i: number): number => {
  const last = c.last[i]!;
  return last === last ? values[i]! : Number.NaN;
};

/** A value that holds until the next logged one; a dip inside a column stays visible. */
export function paintSteps(
  ctx: CanvasRenderingContext2D,
  c: Columns,
  y: YScale,
  style: Stroke,
  halo: Stroke | null,
  dot: number,
): void {
  ctx.beginPath();
  const dots: number[] = [];
  let before = Number.NaN;
  for (let i = 0; i < c.n; i++) {
    const x = c.x[i]!;
    const py = toPixel(y, c.last[i]!);
    if (!Number.isFinite(py)) {
      before = Number.NaN;
      continue;
    }
    if (c.broken[i]) before = Number.NaN;
    if (before === before) {
      ctx.lineTo(x, before);
    } else {
      ctx.moveTo(x, py);
      const goesOn = i + 1 < c.n && !c.broken[i + 1];
      const next = goesOn ? toPixel(y, c.last[i + 1]!) : Number.NaN;
      if (!Number.isFinite(next)) dots.push(x, py);
    }
    if (c.lo[i]! !== c.hi[i]!) {
      const lo = toPixel(y, c.lo[i]!);
      if (Number.isFinite(lo)) ctx.lineTo(x, lo);
      ctx.lineTo(x, toPixel(y, c.hi[i]!));
    }
    ctx.lineTo(x, py);
    before = py;
  }
  if (halo) stroke(ctx, halo);
  stroke(ctx, style);
  paintDots(ctx, dots, dot, style);
}

function paintDots(
  ctx: CanvasRenderingContext2D,
  dots: readonly number[],
  radius: number,
  style: Stroke,
): void {
  if (dots.length === 0) return;
  ctx.beginPath();
  for (let i = 0; i < dots.length; i += 2) {
    ctx.moveTo(dots[i]! + radius, dots[i + 1]!);
    ctx.arc(dots[i]!, dots[i + 1]!, radius, 0, 2 * Math.PI);
  }
  ctx.fillStyle = style.colour;
  ctx.globalAlpha = Math.min(1, style.alpha * 1.5); // a dot is less ink than a line
  ctx.fill();
  ctx.globalAlpha = 1;
}

/** Short ticks along a row: where something happened that has no height. */
export function paintRug(
  ctx: CanvasRenderingContext2D,
  xs: readonly number[],
  bottom: number,
  height: number,
  style: Stroke,
): void {
  ctx.beginPath();
  for (const x of xs) {
    ctx.moveTo(x, bottom - height);
    ctx.lineTo(x, bottom);
  }
  stroke(ctx, style);
}
