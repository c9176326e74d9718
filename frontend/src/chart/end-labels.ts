/** Names and values at the ends of the lines. */
import type { Segment } from "../decode";
import { formatScale, formatSignificant, formatValue } from "../format";
import { type ChartRole, ROLE_STYLE } from "../roles";
import { text } from "../text";
import { FONT_FAMILY, type Painting, roleColour } from "./canvas";
import { referenceHeights } from "./compare-draw";
import { type LabelBox, separateLabels } from "./labels";
import { toPixel, type YScale } from "./paint";
import { type Zone, zoneScale } from "./plan";
import type { DrawnRun } from "./scene";
import { lowerBound } from "./window";

export interface EndLabel {
  /** End of the line, canvas px. */
  readonly x: number;
  readonly y: number;
  readonly run: string;
  readonly role: ChartRole;
  readonly swatch: string | null;
  readonly name: string;
  readonly nameColour: string;
  readonly value: string;
}

const SIZE = 11;
const APART = 14;
const GAP = 9;
const NOTE = 18;

/**
 * One run, or a comparison: every role is labelled. Several: the first zone tells which is which. A panel has no
 * room beside its data; the value is in its head.
 */
export const wantsLabels = (p: Painting, zone: Zone): boolean =>
  p.plan.layout !== "panel" && (p.scene.runs.length === 1 || !!p.scene.comparing || zone === p.plan.zones[0]);

export function endLabel(p: Painting, zone: Zone, run: DrawnRun, y: YScale): EndLabel | null {
  const end = lastDrawn(p, p.segments(zone.role, run.run), zone.role, y);
  if (!end) return null;
  const alone = p.scene.runs.length === 1;
  return {
    x: p.px(end.x),
    y: withinZone(p, zone, toPixel(y, end.value)),
    run: run.run,
    role: zone.role,
    swatch: alone ? null : run.colour,
    name: alone ? (p.coloursAreRoles ? text.axisTitle[zone.role] : "") : run.label,
    nameColour: p.coloursAreRoles ? roleColour(p.tokens, zone.role) : p.tokens.text,
    value: shortValue(end.value, zone.role),
  };
}

/** The end of a line that leaves its zone is at the zone's edge. */
function withinZone(p: Painting, { band }: Zone, y: number): number {
  if (p.plan.layout === "merged") return Math.max(p.top, y);
  return Math.max(p.top + band.top * p.ratio, Math.min(p.top + band.bottom * p.ratio, y));
}

function lastDrawn(p: Painting, segments: readonly Segment[], role: ChartRole, y: YScale) {
  const { from, to } = p.plan.window;
  let best: { x: number; value: number } | null = null;
  for (const s of segments) {
    if (!s.current) continue;
    const values = drawnValues(p, s, role);
    let i = lowerBound(s.x, to);
    if (i >= s.n || s.x[i]! > to) i--;
    while (i >= 0 && !(s.last[i]! === s.last[i]! && Number.isFinite(y.transform(values[i]!)))) i--;
    if (i < 0 || s.x[i]! < from) continue;
    if (!best || s.x[i]! > best.x) best = { x: s.x[i]!, value: values[i]! };
  }
  return best;
}

const drawnValues = (p: Painting, s: Segment, role: ChartRole): Float32Array =>
  ROLE_STYLE[role].smooth && p.scene.smoothing > 0 ? (s.smoothed ?? s.last) : s.last;

function shortValue(v: number, role: ChartRole): string {
  if (role === "loss") return formatSignificant(v, 3);
  if (role === "loss_scale") return formatScale(v);
  return formatValue(v, role);
}

export function drawEndLabels(p: Painting, labels: readonly EndLabel[]): void {
  if (labels.length === 0) return;
  const { ctx, ratio } = p;
  const bold = `600 ${SIZE * ratio}px ${FONT_FAMILY}`;
  const plain = `${SIZE * ratio}px ${FONT_FAMILY}`;
  const right = p.left + p.width;
  ctx.save();
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.lineJoin = "round";
  const measured = labels.map((label) => {
    ctx.font = bold;
    const name = label.name ? ctx.measureText(`${label.name} `).width : 0;
    ctx.font = plain;
    const swatch = label.swatch ? 12 * ratio : 0;
    const size = swatch + name + ctx.measureText(label.value).width;
    const flip = label.x + GAP * ratio + size > right;
    return { name, swatch, size, flip, at: flip ? label.x - GAP * ratio - size : label.x + GAP * ratio };
  });
  const boxes: LabelBox[] = [];
  labels.forEach((label, i) => {
    const { at, size } = measured[i]!;
    boxes.push({ left: at, width: size, y: freeHeight(p, label, at, size, boxes) });
  });
  // Lanes: a label stays in its own, off the separators.
  const placed: number[] = [];
  for (const zone of p.plan.layout !== "merged" ? p.plan.zones : [null]) {
    const own = labels.flatMap((label, i) => (zone === null || label.role === zone.role ? [i] : []));
    const [top, bottom] = boundsOf(p, zone);
    const heights = separateLabels(
      own.map((i) => boxes[i]!),
      APART * ratio,
      top,
      bottom,
    );
    own.forEach((i, k) => {
      placed[i] = heights[k]!;
    });
  }

  labels.forEach((label, i) => {
    const { at, name, swatch, flip } = measured[i]!;
    const y = placed[i]!;
    if (!flip && Math.abs(y - label.y) > 5 * ratio) {
      ctx.beginPath();
      ctx.moveTo(label.x + 2 * ratio, label.y);
      ctx.lineTo(at - 2 * ratio, y);
      ctx.strokeStyle = p.tokens.control;
      ctx.lineWidth = Math.max(1, 0.75 * ratio);
      ctx.stroke();
    }
    if (p.plan.layout === "merged") {
      // A halo alone leaves other roles' lines between the letters.
      ctx.fillStyle = p.tokens.surface;
      ctx.globalAlpha = 0.8;
      ctx.fillRect(at - ratio, y - 7 * ratio, measured[i]!.size + 2 * ratio, 14 * ratio);
      ctx.globalAlpha = 1;
    }
    if (label.swatch) {
      ctx.fillStyle = label.swatch;
      ctx.beginPath();
      ctx.roundRect(at, y - 4 * ratio, 8 * ratio, 8 * ratio, 2 * ratio);
      ctx.fill();
    }
    if (label.name) writeOver(p, label.name, bold, label.nameColour, at + swatch, y);
    writeOver(p, label.value, plain, p.tokens.text, at + swatch + name, y);
  });
  ctx.restore();
}

/** Between which heights a label's middle may lie. */
function boundsOf(p: Painting, zone: Zone | null | undefined): [number, number] {
  const { top, bottom } =
    zone && p.plan.layout !== "merged" ? zone.band : { top: 0, bottom: p.height / p.ratio };
  const half = APART / 2;
  // The first lane says at its upper edge what it cuts off.
  const note = zone?.clipped && zone === p.plan.zones[0] && p.plan.layout === "lanes" ? NOTE : 0;
  return [p.top + (top + half + note) * p.ratio, p.top + (bottom - half) * p.ratio];
}

/** Text with a halo of the surface's colour, so that it reads on top of lines. */
export function writeOver(
  p: Painting,
  what: string,
  font: string,
  colour: string,
  x: number,
  y: number,
): void {
  const { ctx } = p;
  ctx.font = font;
  ctx.strokeStyle = p.tokens.surface;
  ctx.lineWidth = 3 * p.ratio;
  ctx.strokeText(what, x, y);
  ctx.fillStyle = colour;
  ctx.fillText(what, x, y);
}

/** How far (CSS px) a label may step aside: for lines of its own metric, and in Merged for those of others. */
const AWAY = [0, -13, 13, -20, 20, -28, 28, -42, 42, -56];
const AWAY_FROM_OTHERS = 20;

/** The height nearest to the line's end with no drawn line and no other label in the way. */
function freeHeight(
  p: Painting,
  label: EndLabel,
  left: number,
  width: number,
  placed: readonly LabelBox[],
): number {
  const near = 9 * p.ratio;
  const zone = p.plan.zones.find((z) => z.role === label.role);
  const [top, bottom] = boundsOf(p, zone);
  const within = (y: number) => Math.max(top, Math.min(bottom, y));
  const own = zone ? passing(p, zone, left, width) : [];
  const others =
    p.plan.layout === "merged"
      ? p.plan.zones.filter((z) => z !== zone).flatMap((z) => passing(p, z, left, width))
      : [];
  const beside = [...placed, ...p.written].filter((b) => b.left < left + width && left < b.left + b.width);
  for (const [lines, most] of [
    [[...own, ...others], AWAY_FROM_OTHERS],
    [own, Number.POSITIVE_INFINITY],
  ] as const) {
    for (const away of AWAY) {
      if (Math.abs(away) > most) continue;
      const y = within(label.y + away * p.ratio);
      if (lines.some((line) => Math.abs(line - y) <= near)) continue;
      if (beside.every((b) => Math.abs(b.y - y) >= APART * p.ratio)) return y;
    }
  }
  return within(label.y);
}

/** Heights at which a metric's lines go through a stretch of x. */
function passing(p: Painting, zone: Zone, left: number, width: number): number[] {
  const scale = zoneScale(zone, p.top, p.height);
  const heights = referenceHeights(p, zone);
  for (const s of p.index.role(zone.role)) {
    if (!s.current || s.n === 0) continue;
    const values = drawnValues(p, s, zone.role);
    for (let k = 0; k <= 4; k++) {
      const px = left + (width * k) / 4;
      const at = p.plan.x.at((px - p.left) / p.width);
      if (at < s.x[0]! || at > s.x[s.n - 1]!) continue;
      const y = toPixel(scale, values[Math.min(s.n - 1, lowerBound(s.x, at))]!);
      if (Number.isFinite(y)) heights.push(y);
    }
  }
  return heights;
}
