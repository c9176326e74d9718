/** Paints a planned scene: what restarts left behind, then bands, lines, peaks, rugs and labels. */
import { SEVERITIES } from "../api";
import type { Segment } from "../decode";
import { formatPosition, formatSignificant, formatValue } from "../format";
import { isDerived, ROLE_STYLE } from "../roles";
import { text } from "../text";
import { clip, crisp, FONT_FAMILY, type Painting, roleColour } from "./canvas";
import type { Columns } from "./columns";
import { drawParted, drawReferences } from "./compare-draw";
import { drawEndLabels, type EndLabel, endLabel, wantsLabels, writeOver } from "./end-labels";
import { describeNonFinite, type Mark, type MarkKind } from "./marks";
import {
  type Cover,
  coverOf,
  paintBand,
  paintBandBehind,
  paintLine,
  paintSparse,
  paintSteps,
  type Stroke,
  toPixel,
  type YScale,
} from "./paint";
import { lonePeaks } from "./peaks";
import { type Zone, zoneScale } from "./plan";
import { drawNonFinite, drawOverflow } from "./rugs";
import { type DrawnRun, densityOf, FEW_RUNS, SUPERSEDED } from "./scene";

export function drawScene(p: Painting, marks: readonly Mark[]): void {
  const { ctx, plan, scene } = p;
  const order = [...scene.runs].reverse(); // the run chosen first lies on top
  const labels: EndLabel[] = [];
  ctx.save();
  ctx.lineJoin = "round";
  clip(ctx, p.left, p.top, p.width, p.height);
  drawSupersededStretches(p);
  drawSelected(p);
  drawReferences(p);
  drawMarkLines(p, marks);
  // Merged draws the loss last: it is what the others are read against.
  for (const zone of plan.layout === "merged" ? [...plan.zones].reverse() : plan.zones) {
    const y = zoneScale(zone, p.top, p.height);
    drawZone(p, zone, y, order, null, marks);
    if (zone.empty && !scene.pending) drawEmptyZone(p, zone);
    if (densityOf(scene.runs.length, p.ratio).labels && wantsLabels(p, zone)) {
      labels.push(...scene.runs.flatMap((run) => endLabel(p, zone, run, y) ?? []));
    }
    drawNonFinite(p, zone);
  }
  drawOverflow(p);
  drawDivergences(p, marks);
  ctx.restore();
  drawParted(p);
  drawEndLabels(p, labels);
}

/** Beside the line of a divergence: whose it is, and from where. */
function drawDivergences(p: Painting, marks: readonly Mark[]): void {
  const { ctx, ratio, scene, plan } = p;
  const zone = plan.zones[0];
  if (!zone || plan.layout === "panel" || scene.runs.length > FEW_RUNS) return;
  const own = marks.filter((m) => m.finding?.rule === "loss_divergence");
  own.forEach((mark, i) => {
    const run = scene.runs.find((r) => r.run === mark.run);
    const x = p.px(mark.x);
    if (!run || x < p.left || x > p.left + p.width) return;
    const words = text.marks.diverges(formatPosition(mark.x, scene.x));
    const font = `${11 * ratio}px ${FONT_FAMILY}`;
    ctx.font = font;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    const swatch = scene.runs.length > 1 ? 12 * ratio : 0;
    const width = swatch + ctx.measureText(words).width;
    const at = x - width - 8 * ratio > p.left ? x - width - 8 * ratio : x + 8 * ratio;
    const { top, bottom } = zone.band;
    const y = p.top + (top + (bottom - top) * 0.3 + i * 16) * ratio;
    if (swatch) {
      ctx.fillStyle = run.colour;
      ctx.beginPath();
      ctx.roundRect(at, y - 4 * ratio, 8 * ratio, 8 * ratio, 2 * ratio);
      ctx.fill();
    }
    writeOver(p, words, font, p.tokens.text, at + swatch, y);
    p.written.push({ left: at, width, y });
  });
}

/**
 * One run lit, on a canvas above the picture: all that lies there is dimmed where runs are many, and the run
 * is drawn once more on top. So what a crowd costs to draw is not paid at every move of the pointer.
 */
export function drawLit(p: Painting, lit: string, marks: readonly Mark[]): void {
  const { ctx, plan, scene } = p;
  const density = densityOf(scene.runs.length, p.ratio);
  ctx.save();
  ctx.lineJoin = "round";
  clip(ctx, p.left, p.top, p.width, p.height);
  if (density.others < 1) {
    ctx.globalAlpha = 1 - density.others;
    ctx.fillStyle = p.tokens.surface;
    for (const zone of plan.zones) {
      const { top, bottom } = plan.layout === "merged" ? { top: 0, bottom: p.height / p.ratio } : zone.band;
      ctx.fillRect(p.left, p.top + top * p.ratio, p.width, (bottom - top) * p.ratio);
      if (plan.layout === "merged") break;
    }
    ctx.globalAlpha = 1;
  }
  const stays = (run: DrawnRun) => density.others < 1 && run.info.verdict === "critical";
  const order = scene.runs.filter((run) => stays(run) && run.run !== lit).reverse();
  order.push(...scene.runs.filter((run) => run.run === lit));
  for (const zone of plan.zones) {
    drawZone(p, zone, zoneScale(zone, p.top, p.height), order, lit, marks);
    drawNonFinite(p, zone);
  }
  drawOverflow(p);
  ctx.restore();
}

function drawZone(
  p: Painting,
  zone: Zone,
  y: YScale,
  order: readonly DrawnRun[],
  lit: string | null,
  marks: readonly Mark[],
): void {
  const { ctx, plan, scene, ratio } = p;
  const density = densityOf(scene.runs.length, ratio);
  const style = ROLE_STYLE[zone.role];
  const curve = style.shape === "curve";
  const smoothed = style.smooth && scene.smoothing > 0;
  const dot = 3 * ratio;
  const looks = new Map(order.map((run) => [run, lineLook(p, zone, run, lit)]));
  ctx.save();
  if (plan.layout !== "merged") {
    const { top, bottom } = zone.band;
    clip(ctx, p.left, p.top + top * ratio, p.width, (bottom - top) * ratio);
  }
  for (const [run, line] of looks) drawSuperseded(p, zone, run, y, line);
  if (curve) for (const [run, line] of looks) drawRaw(p, zone, run, y, line, run.run === lit);
  for (const [run, line] of looks) {
    const halo = density.halo && zone.role === "loss" ? haloOf(p, line) : null;
    for (const s of p.segments(zone.role, run.run)) {
      if (!s.current) continue;
      const c = p.columns(s);
      // Steps closer than a few px are a line to the eye, and dashes would pile up on their corners.
      const stepped = !curve && (zone.role === "loss_scale" || c.density * ratio < 0.17);
      if (stepped) paintSteps(ctx, c, y, line, halo, dot);
      else paintLine(ctx, c, smoothed ? c.smoothed : c.last, y, line, halo, dot);
    }
  }
  ctx.restore();
  // Outside the lane's clip: the ring of its highest point reaches over the edge.
  if (style.peaks && scene.runs.length <= FEW_RUNS) {
    const spikesOf = (run: string) =>
      marks.filter((m) => m.kind === "spike" && m.run === run && m.role === zone.role);
    for (const [run, line] of looks) {
      for (const s of p.segments(zone.role, run.run)) {
        if (s.current && (smoothed || !s.raw)) drawPeaks(p, zone, y, line, p.columns(s), spikesOf(run.run));
      }
    }
  }
}

function lineLook(p: Painting, zone: Zone, run: DrawnRun, litRun: string | null): Stroke {
  const { plan, scene, ratio } = p;
  const merged = plan.layout === "merged";
  const density = densityOf(scene.runs.length, ratio);
  const style = ROLE_STYLE[zone.role];
  const lit = run.run === litRun;
  let width = density.line;
  if (scene.runs.length <= FEW_RUNS) {
    if (merged) width = style.width;
    else if (zone.role === "grad_norm") width = 1.25;
    if (lit && scene.runs.length > 1) width += 0.5;
  } else if (lit) width = 2;
  const inFront = lit || run === scene.runs[0];
  return {
    colour: p.coloursAreRoles ? roleColour(p.tokens, zone.role) : run.colour,
    alpha: merged && zone.role !== "loss" && !inFront ? 0.45 : 1,
    width: Math.max(1, width * ratio),
    dash: merged ? style.dash.map((d) => d * ratio) : [],
  };
}

const haloOf = (p: Painting, line: Stroke): Stroke => ({
  colour: p.tokens.surface,
  width: line.width + 2 * p.ratio,
  alpha: 0.85,
});

/** Too many points for a line through all of them. */
const crowded = (p: Painting, s: Segment, c: Columns): boolean => !s.raw || c.density * p.ratio > 0.9;

/** How far (canvas px) a band of buckets may reach over to the next one. */
const bridgeOf = (s: Segment, c: Columns): number => (!s.raw && c.density > 0 ? 1.5 / c.density : 0);

/** Behind everything else, and fainter than the raw data of the curve that took its place. */
function drawSuperseded(p: Painting, zone: Zone, run: DrawnRun, y: YScale, { colour, alpha }: Stroke): void {
  const { ctx, ratio } = p;
  const all = p.segments(zone.role, run.run);
  const old = all.filter((s) => !s.current);
  if (old.length === 0) return;
  const curve = ROLE_STYLE[zone.role].shape === "curve";
  const front: Cover = new Map();
  if (curve) {
    for (const s of all) {
      if (!s.current) continue;
      const c = p.columns(s);
      if (crowded(p, s, c)) coverOf(c, y, bridgeOf(s, c), front);
    }
  }
  const band = densityOf(p.scene.runs.length, ratio).band * SUPERSEDED.band;
  for (const s of old) {
    const c = p.columns(s);
    if (curve && (front.size > 0 || crowded(p, s, c))) {
      paintBandBehind(ctx, c, y, bridgeOf(s, c), { colour, alpha: band * alpha }, front);
      continue;
    }
    const share = curve ? SUPERSEDED.line : SUPERSEDED.steps;
    const faint: Stroke = { colour, width: Math.max(1, ratio), alpha: share * alpha };
    if (curve) paintLine(ctx, c, c.last, y, faint, null, 2 * ratio);
    else paintSteps(ctx, c, y, faint, null, 2 * ratio);
  }
  if (!curve) return;
  // A training that is repeated exactly lies on what it superseded: their ink must not add up.
  const away: Stroke = { colour: p.tokens.surface, width: Math.max(1, ratio), alpha: 1 };
  for (const s of all) {
    if (!s.current) continue;
    const c = p.columns(s);
    if (!crowded(p, s, c)) paintLine(ctx, c, c.last, y, away, null, 0);
  }
}

/** Under the smoothed line: every point as a faint line, or min to max per pixel where they are too many. */
function drawRaw(p: Painting, zone: Zone, run: DrawnRun, y: YScale, line: Stroke, lit: boolean): void {
  const { ctx, scene, ratio } = p;
  const density = densityOf(scene.runs.length, ratio);
  const smoothed = ROLE_STYLE[zone.role].smooth && scene.smoothing > 0;
  let alpha = density.band;
  if (lit && scene.runs.length > FEW_RUNS) alpha = 0.22;
  else if (zone.role !== "loss" && scene.runs.length > 1) alpha *= 0.7; // healthy runs lie on each other here
  if (alpha === 0) return;
  for (const s of p.segments(zone.role, run.run)) {
    if (!s.current) continue;
    const c = p.columns(s);
    if (crowded(p, s, c)) {
      paintBand(ctx, c, y, bridgeOf(s, c), { colour: line.colour, alpha: alpha * line.alpha });
      // A logarithmic axis spreads the first points of a crowd far apart.
      if (p.plan.x.log) {
        paintSparse(ctx, c, y, {
          colour: line.colour,
          width: Math.max(1, ratio),
          alpha: Math.max(alpha, density.raw),
        });
      }
    } else if (smoothed && density.raw > 0) {
      const thin: Stroke = { colour: line.colour, width: Math.max(1, ratio), alpha: density.raw };
      paintLine(ctx, c, c.last, y, thin, null, 2 * ratio);
    }
  }
}

const MOST_PEAKS = 8;
const LABELLED_PEAKS = 2;

function drawPeaks(
  p: Painting,
  zone: Zone,
  y: YScale,
  line: Stroke,
  c: Columns,
  spikes: readonly Mark[],
): void {
  const { ctx, ratio, scene } = p;
  const up = (v: number) => {
    const px = toPixel(y, v);
    return Number.isFinite(px) ? -px : Number.NaN;
  };
  const peaks = lonePeaks(
    c.n,
    (i) => up(c.hi[i]!),
    (i) => up(c.hi[i]!) - up(c.lo[i]!),
    MOST_PEAKS,
  );
  peaks.forEach(({ i }, rank) => {
    const x = c.x[i]!;
    const top = toPixel(y, c.hi[i]!);
    const foot = toPixel(y, ROLE_STYLE[zone.role].smooth && scene.smoothing > 0 ? c.smoothed[i]! : c.lo[i]!);
    const ring = 3.5 * ratio;
    const cutOff = p.plan.layout !== "merged" ? p.top + zone.band.top * ratio : p.top;
    if (foot - top < 3 * ring || foot < cutOff || x < p.left || x > p.left + p.width) return;
    const at = Math.max(top, cutOff + ring);
    ctx.globalAlpha = line.alpha;
    ctx.strokeStyle = line.colour;
    ctx.lineWidth = 1.25 * ratio;
    ctx.beginPath();
    ctx.moveTo(x, foot);
    ctx.lineTo(x, at + ring);
    ctx.stroke();
    ctx.beginPath();
    if (top >= cutOff) {
      ctx.arc(x, top, ring, 0, 2 * Math.PI);
    } else {
      // Higher than the range goes: an arrow at the edge instead of a ring at the value.
      ctx.moveTo(x - ring, at + ring);
      ctx.lineTo(x, at - ring);
      ctx.lineTo(x + ring, at + ring);
      ctx.closePath();
    }
    ctx.fillStyle = p.tokens.surface;
    ctx.fill();
    ctx.lineWidth = 1.5 * ratio;
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (rank < LABELLED_PEAKS && scene.runs.length <= 3 && line.alpha === 1) {
      const value = zone.role === "loss" ? formatSignificant(c.hi[i]!, 3) : formatValue(c.hi[i]!, zone.role);
      // Only a finding knows the step: a column, and a bucket, hold many.
      const known = spikes.find((m) => Math.abs(p.px(m.x) - x) <= 2 * ratio);
      const words = known ? text.marks.spike(value, formatPosition(known.x, scene.x)) : value;
      const [left, middle] = [x + 8 * ratio, Math.max(at, p.top + 7 * ratio)];
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      writeOver(p, words, `${11 * ratio}px ${FONT_FAMILY}`, p.tokens.text2, left, middle);
      p.written.push({ left, width: ctx.measureText(words).width, y: middle });
    }
  });
}

/** Where a superseded branch lies, in case it cannot be told from the curve that took its place. */
function drawSupersededStretches(p: Painting): void {
  if (!densityOf(p.scene.runs.length, p.ratio).labels) return;
  const stretches = p.scene.segments
    .filter((s) => !s.current && s.n > 1)
    .map((s) => [p.px(s.x[0]!), p.px(s.x[s.n - 1]!)] as const)
    .sort(([a], [b]) => a - b);
  p.ctx.fillStyle = p.tokens.info;
  p.ctx.globalAlpha = SUPERSEDED.stretch;
  let done = Number.NEGATIVE_INFINITY;
  for (const [from, to] of stretches) {
    const left = Math.max(done, from);
    if (to > left) p.ctx.fillRect(left, p.top, to - left, p.height);
    done = Math.max(done, to);
  }
  p.ctx.globalAlpha = 1;
}

/** The stretch of the selected finding, in all zones. */
function drawSelected(p: Painting): void {
  const { selected } = p.scene;
  if (!selected) return;
  const least = 3 * p.ratio;
  const from = p.px(selected.from);
  const width = Math.max(least, p.px(selected.to) - from);
  p.ctx.fillStyle = p.tokens.accent;
  p.ctx.globalAlpha = 0.1;
  p.ctx.fillRect(width === least ? from - least / 2 : from, p.top, width, p.height);
  p.ctx.globalAlpha = 1;
}

/** Full height only for what changes all that follows: a restart, a divergence. */
const FULL_HEIGHT: ReadonlySet<MarkKind> = new Set(["restart", "diverged", "parted"]);

function drawMarkLines(p: Painting, marks: readonly Mark[]): void {
  const { ctx, ratio } = p;
  for (const severity of SEVERITIES) {
    ctx.beginPath();
    for (const mark of marks) {
      if (mark.severity !== severity || !FULL_HEIGHT.has(mark.kind)) continue;
      const x = crisp(p.px(mark.x));
      ctx.moveTo(x, p.top);
      ctx.lineTo(x, p.top + p.height);
    }
    ctx.strokeStyle = p.tokens[severity];
    ctx.globalAlpha = 0.5;
    ctx.lineWidth = Math.max(1, ratio);
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  }
}

function drawEmptyZone(p: Painting, zone: Zone): void {
  const { ctx, ratio } = p;
  const what = describeNonFinite(p.index.role(zone.role));
  const name = text.axisTitle[zone.role];
  const nothing = isDerived(zone.role) ? text.compare.nothing(name) : text.chart.nothingHere(name);
  const sentence = what ? text.chart.allNonFinite(name, what) : nothing;
  ctx.font = `${12 * ratio}px ${FONT_FAMILY}`;
  ctx.fillStyle = p.tokens.text3;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const middle = p.top + ((zone.band.top + zone.band.bottom) / 2) * ratio;
  ctx.fillText(sentence, p.left + p.width / 2, middle);
}
