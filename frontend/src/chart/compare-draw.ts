/** What the curves of a comparison are read against, and where runs leave their baseline. */
import type { Segment } from "../decode";
import { formatPosition } from "../format";
import { text } from "../text";
import { clip, crisp, FONT_FAMILY, type Painting } from "./canvas";
import { type Comparing, limitAt } from "./compare";
import { writeOver } from "./end-labels";
import { toPixel } from "./paint";
import { type Zone, zoneScale } from "./plan";
import { pointsIn } from "./window";

/** How strongly the stretch within the tolerance is shaded. */
const SHADE = 0.09;

/** Under the curves: the zero of the difference, the tolerance of the relative error. */
export function drawReferences(p: Painting): void {
  const { comparing } = p.scene;
  if (!comparing) return;
  for (const zone of p.plan.zones) {
    if (zone.empty) continue;
    if (zone.role === "difference") horizontal(p, zone, 0, []);
    if (zone.role === "relative_error" && comparing.limit > 0) within(p, zone, comparing);
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
    ruled(p, dash);
  });
}

/** Shaded up to the tolerance: a straight line, or one that follows the baseline where part of it is absolute. */
function within(p: Painting, zone: Zone, comparing: Comparing): void {
  const dash = [4 * p.ratio, 3 * p.ratio];
  if (comparing.absolute > 0) {
    for (const s of p.segments(comparing.role, comparing.baseline)) {
      if (s.current) shadeBelow(p, zone, limitLine(p, zone, comparing, s), dash);
    }
    return;
  }
  const y = crisp(toPixel(zoneScale(zone, p.top, p.height), comparing.tolerance));
  shadeBelow(
    p,
    zone,
    [
      [p.left, y],
      [p.left + p.width, y],
    ],
    dash,
  );
}

type Point = readonly [x: number, y: number];

/** Canvas px of the tolerance at the points of a segment of the baseline. */
function limitLine(p: Painting, zone: Zone, comparing: Comparing, s: Segment): Point[] {
  const scale = zoneScale(zone, p.top, p.height);
  const [first, end] = pointsIn(s, p.plan.window);
  const values = s.smoothed ?? s.last;
  const line: Point[] = [];
  for (let i = Math.max(0, first - 1); i < Math.min(s.n, end + 1); i++) {
    // At a baseline of 0 everything is within it.
    const y = Math.max(p.top - 1, toPixel(scale, limitAt(comparing, values[i]!)));
    const x = p.px(s.x[i]!);
    if (Number.isFinite(x) && Number.isFinite(y)) line.push([x, y]);
  }
  return line;
}

function shadeBelow(p: Painting, zone: Zone, line: readonly Point[], dash: readonly number[]): void {
  if (line.length === 0) return;
  inZone(p, zone, (_, bottom) => {
    const { ctx } = p;
    const trace = () => {
      ctx.beginPath();
      for (const [x, y] of line) ctx.lineTo(x, y);
    };
    trace();
    ctx.lineTo(line.at(-1)![0], bottom);
    ctx.lineTo(line[0]![0], bottom);
    ctx.globalAlpha = SHADE;
    ctx.fillStyle = p.tokens.ok;
    ctx.fill();
    ctx.globalAlpha = 1;
    trace();
    ruled(p, dash);
  });
}

function ruled(p: Painting, dash: readonly number[]): void {
  p.ctx.strokeStyle = p.tokens.text2;
  p.ctx.lineWidth = Math.max(1, p.ratio);
  p.ctx.setLineDash([...dash]);
  p.ctx.stroke();
  p.ctx.setLineDash([]);
}

/** Heights (canvas px) of the lines that words must keep clear of. */
export function referenceHeights(p: Painting, zone: Zone): number[] {
  const { comparing } = p.scene;
  const value =
    zone.role === "difference" ? 0 : zone.role === "relative_error" ? comparing?.limit : undefined;
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
