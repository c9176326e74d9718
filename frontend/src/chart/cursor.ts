/** The cursor's line and the points it reads, and the stretch that a drag marks. */
import { crisp, type Painting, roleColour } from "./canvas";
import type { Reading } from "./nearest";
import { toPixel } from "./paint";
import { zoneScale } from "./plan";
import type { Window } from "./window";
import type { Band } from "./zones";

/** A plot in its host, CSS px. */
export interface Place {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export type Marked =
  /** Positions on the x axis. */
  | ({ readonly axis: "x" } & Window)
  /** Fractions of the plot's height from its top, within a lane. */
  | { readonly axis: "y"; readonly from: number; readonly to: number; readonly band: Band };

/** Above this many runs the points of all of them would be a caterpillar; only the lit one has its own. */
const MOST_DOTS = 20;

export function drawCursor(p: Painting, x: number, rows: readonly Reading[], lit: string | null): void {
  const { ctx, plan, scene, tokens, ratio } = p;
  const lineX = crisp(p.px(x));
  ctx.beginPath();
  ctx.moveTo(lineX, p.top);
  ctx.lineTo(lineX, p.top + p.height);
  ctx.strokeStyle = tokens.text2;
  ctx.lineWidth = 1;
  ctx.stroke();
  const dotted = scene.runs.length > MOST_DOTS ? rows.filter((row) => row.run === lit) : rows;
  for (const row of [...dotted].reverse()) {
    const colour = scene.runs.find((r) => r.run === row.run)?.colour ?? tokens.text;
    for (const zone of plan.zones) {
      const cell = row.cells[zone.role];
      if (!cell || !Number.isFinite(cell.value)) continue;
      const at = p.px(cell.x);
      const y = toPixel(zoneScale(zone, p.top, p.height), cell.value);
      if (!Number.isFinite(y) || y < p.top - ratio || at < p.left - ratio || at > p.left + p.width + ratio)
        continue;
      ctx.beginPath();
      ctx.arc(at, y, (row.superseded ? 2.5 : 3.5) * ratio, 0, 2 * Math.PI);
      ctx.fillStyle = p.coloursAreRoles ? roleColour(tokens, zone.role) : colour;
      ctx.fill();
      ctx.strokeStyle = tokens.surface;
      ctx.lineWidth = 1.5 * ratio;
      ctx.stroke();
    }
  }
}

export function drawMarked(p: Painting, marked: Marked): void {
  const { ctx, ratio } = p;
  let [left, right, top, bottom] = [p.left, p.left + p.width, p.top, p.top + p.height];
  if (marked.axis === "x") {
    left = Math.max(left, p.px(marked.from));
    right = Math.min(right, p.px(marked.to));
  } else {
    const within = (at: number) =>
      p.top + Math.max(marked.band.top * ratio, Math.min(marked.band.bottom * ratio, at * p.height));
    top = within(marked.from);
    bottom = within(marked.to);
  }
  ctx.fillStyle = p.tokens.accent;
  ctx.globalAlpha = 0.12;
  ctx.fillRect(left, top, right - left, bottom - top);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = p.tokens.accent;
  ctx.lineWidth = Math.max(1, ratio);
  ctx.beginPath();
  if (marked.axis === "x") {
    for (const x of [left, right]) {
      ctx.moveTo(crisp(x), top);
      ctx.lineTo(crisp(x), bottom);
    }
  } else {
    for (const y of [top, bottom]) {
      ctx.moveTo(left, crisp(y));
      ctx.lineTo(right, crisp(y));
    }
  }
  ctx.stroke();
}
