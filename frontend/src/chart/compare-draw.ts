/** What the curves of a comparison are read against, and where runs leave their baseline. */
import { formatPosition } from "../format";
import { text } from "../text";
import { clip, crisp, FONT_FAMILY, type Painting } from "./canvas";
import { writeOver } from "./end-labels";
import { toPixel } from "./paint";
import { type Zone, zoneScale } from "./plan";

/** How strongly the stretch within the tolerance is shaded. */
const SHADE = 0.09;

/** Under the curves: the zero of the difference, the tolerance of the relative error. */
export function drawReferences(p: Painting): void {
  const { comparing } = p.scene;
  if (!comparing) return;
  for (const zone of p.plan.zones) {
    if (zone.empty) continue;
    if (zone.role === "difference") horizontal(p, zone, 0, []);
    if (zone.role === "relative_error" && comparing.tolerance > 0) {
      shadeBelow(p, zone, comparing.tolerance);
      horizontal(p, zone, comparing.tolerance, [4 * p.ratio, 3 * p.ratio]);
    }
  }
}

function inZone(p: Painting, zone: Zone, draw: (top: number, bottom: number) => void): void {
  const [top, bottom] = [p.top + zone.band.top * p.ratio, p.top + zone.band.bottom * p.ratio];
  p.ctx.save();
  clip(p.ctx, p.left, top, p.width, bottom - top);
  draw(top, bottom);
  p.ctx.restore();
}

function horizontal(p: Painting, zone: Zone, value: number, dash: readonly number[]): void {
  inZone(p, zone, () => {
    const y = crisp(toPixel(zoneScale(zone, p.top, p.height), value));
    p.ctx.beginPath();
    p.ctx.moveTo(p.left, y);
    p.ctx.lineTo(p.left + p.width, y);
    p.ctx.strokeStyle = p.tokens.text2;
    p.ctx.lineWidth = Math.max(1, p.ratio);
    p.ctx.setLineDash([...dash]);
    p.ctx.stroke();
    p.ctx.setLineDash([]);
  });
}

function shadeBelow(p: Painting, zone: Zone, value: number): void {
  inZone(p, zone, (top, bottom) => {
    const y = Math.max(top, toPixel(zoneScale(zone, p.top, p.height), value));
    p.ctx.globalAlpha = SHADE;
    p.ctx.fillStyle = p.tokens.ok;
    p.ctx.fillRect(p.left, y, p.width, bottom - y);
    p.ctx.globalAlpha = 1;
  });
}

/** Heights (canvas px) of the lines that words must keep clear of. */
export function referenceHeights(p: Painting, zone: Zone): number[] {
  const { comparing } = p.scene;
  const value =
    zone.role === "difference" ? 0 : zone.role === "relative_error" ? comparing?.tolerance : undefined;
  if (!comparing || value === undefined) return [];
  return [toPixel(zoneScale(zone, p.top, p.height), value)].filter(Number.isFinite);
}

/** CSS px: from a line to the words beside its mark, between the words of two runs, and the row of marks. */
const BESIDE = 14;
const APART = 16;
const MARKS_ROW = 14;
/** The uppermost zone's title stands at the left of that row; its first mark is moved out of its way. */
const TITLE = 150;

/** Beside the marks, in their row, as far as there is room: who leaves the baseline, and where. */
export function drawParted(p: Painting): void {
  const { comparing, runs, x: axis } = p.scene;
  if (!comparing) return;
  const { ctx, ratio } = p;
  const font = `${11 * ratio}px ${FONT_FAMILY}`;
  const bold = `600 ${11 * ratio}px ${FONT_FAMILY}`;
  const right = p.left + p.width;
  const y = p.top - MARKS_ROW * ratio;
  const marks = comparing.parted.map(({ x }) => p.px(x)).sort((a, b) => a - b);
  let free = p.left + TITLE * ratio;
  ctx.save();
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const { run: name, x } of [...comparing.parted].sort((a, b) => a.x - b.x)) {
    const run = runs.find((r) => r.run === name);
    const at = p.px(x);
    if (!run || at < p.left || at > right) continue;
    const words = text.compare.leavesAt(formatPosition(x, axis));
    ctx.font = bold;
    const label = 12 * ratio + ctx.measureText(`${run.label} `).width;
    ctx.font = font;
    const width = label + ctx.measureText(words).width;
    let left = Math.max(free, at + BESIDE * ratio);
    // At the right edge they stand on the other side of the mark.
    if (left + width > right) left = at - BESIDE * ratio - width;
    const next = marks.find((mark) => mark > at + BESIDE * ratio) ?? Number.POSITIVE_INFINITY;
    if (left < free || (left > at && left + width > next - BESIDE * ratio)) continue;
    free = left + width + APART * ratio;
    ctx.fillStyle = run.colour;
    ctx.beginPath();
    ctx.roundRect(left, y - 4 * ratio, 8 * ratio, 8 * ratio, 2 * ratio);
    ctx.fill();
    writeOver(p, run.label, bold, p.tokens.text, left + 12 * ratio, y);
    writeOver(p, words, font, p.tokens.text, left + label, y);
  }
  ctx.restore();
}
