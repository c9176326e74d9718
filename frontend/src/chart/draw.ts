/** Paints a planned scene: grid first, then what restarts left behind, bands, lines, rugs and labels. */
import type { Segment } from "../decode";
import { formatScale, formatSignificant, formatValue } from "../format";
import { type OverlayRole, ROLE_STYLE } from "../roles";
import { text } from "../text";
import { TOKENS } from "../theme";
import { pixelColumns } from "./columns";
import { lowerBound } from "./extent";
import { type LabelBox, separateLabels } from "./labels";
import { describeNonFinite, type Mark } from "./marks";
import { paintBand, paintLine, paintRug, paintSteps, type Stroke, toPixel, type YScale } from "./paint";
import { NAN_RUG, OVERFLOW_ROWS, OVERFLOW_RUG, overflowRow, type Plan, type Zone, zoneScale } from "./plan";
import { type DrawnRun, densityOf, type Scene } from "./scene";
import { LANE_GAP } from "./zones";

export const FONT_FAMILY =
  'Roboto, "Segoe UI", -apple-system, "Helvetica Neue", Arial, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';
export const LABEL_APART = 14;

/** The plot area in canvas px. */
export interface Frame {
  readonly ctx: CanvasRenderingContext2D;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  readonly ratio: number;
}

export function drawGrid(frame: Frame, plan: Plan, scene: Scene, panelWidth: number): void {
  const { ctx, left, top, width, height, ratio } = frame;
  const tokens = TOKENS[scene.theme];
  ctx.save();
  ctx.lineWidth = 1;
  ctx.strokeStyle = tokens.grid;
  ctx.beginPath();
  const stretches =
    plan.mode === "lanes" ? plan.zones.map((z) => z.band) : [{ top: 0, bottom: height / ratio }];
  for (const tick of plan.xTicks) {
    const x = crisp(left + ((tick.at - plan.window.from) / (plan.window.to - plan.window.from)) * width);
    for (const s of stretches) {
      ctx.moveTo(x, top + s.top * ratio);
      ctx.lineTo(x, top + s.bottom * ratio);
    }
  }
  // Merged frames would be a web of four grids: only the first role, the loss where there is one, has one.
  for (const zone of plan.mode === "lanes" ? plan.zones : plan.zones.slice(0, 1)) {
    const [min, max] = zone.range;
    for (const tick of zone.ticks) {
      const y = crisp(top + (1 - (tick.at - min) / (max - min)) * height);
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
    }
  }
  ctx.stroke();
  ctx.strokeStyle = tokens.line;
  ctx.beginPath();
  if (plan.mode === "lanes") {
    for (const zone of plan.zones.slice(1)) {
      const y = crisp(top + (zone.band.top - LANE_GAP + 5) * ratio);
      ctx.moveTo(0, y);
      ctx.lineTo(panelWidth * ratio, y);
    }
  }
  const base = crisp(top + height);
  ctx.moveTo(left, base);
  ctx.lineTo(left + width, base);
  ctx.stroke();
  ctx.restore();
}

const crisp = (v: number): number => Math.floor(v) + 0.5;

interface Label {
  x: number;
  y: number;
  swatch: string | null;
  name: string;
  nameColour: string;
  value: string;
  zone: Zone;
}

export function drawScene(frame: Frame, plan: Plan, scene: Scene, marks: readonly Mark[]): void {
  const { ctx, left, top, width, height, ratio } = frame;
  const tokens = TOKENS[scene.theme];
  const { from, to } = plan.window;
  const scale = width / (to - from);
  const offset = left - from * scale;
  const density = densityOf(scene.runs.length, ratio);
  const oneMerged = plan.mode === "merged" && scene.runs.length === 1;
  const bySeries = new Map<string, Segment[]>();
  for (const s of scene.segments) {
    const key = `${s.role}\n${s.run}`;
    const own = bySeries.get(key);
    if (own) own.push(s);
    else bySeries.set(key, [s]);
  }
  const segmentsOf = (role: string, run: string) => bySeries.get(`${role}\n${run}`) ?? [];
  const columns = (s: Segment) => pixelColumns(s, from, to, scale, offset);
  const order = drawOrder(scene);
  const topRun = order[order.length - 1];
  const labels: Label[] = [];

  ctx.save();
  ctx.lineJoin = "round";
  clip(ctx, left, top, width, height);
  drawRestartLines(frame, plan, marks, tokens.info);

  // Merged draws the loss last: it is what the others are read against.
  const zones = plan.mode === "merged" ? [...plan.zones].reverse() : plan.zones;
  for (const zone of zones) {
    const y = zoneScale(zone, top, height);
    const style = ROLE_STYLE[zone.role];
    const own = (run: DrawnRun) => segmentsOf(zone.role, run.run);
    const look = (run: DrawnRun): Stroke => {
      const lit = run.run === scene.hovered;
      const colour = oneMerged ? tokens[zone.role] : run.colour;
      let alpha = 1;
      if (scene.hovered && !lit && run.info.verdict !== "critical") alpha = density.others;
      let wide = density.line;
      if (scene.runs.length <= 6) {
        if (plan.mode === "merged") wide = style.width;
        else if (zone.role === "grad_norm") wide = 1.25;
        if (lit && scene.runs.length > 1) wide += 0.5;
      } else if (lit) wide = 2;
      if (plan.mode === "merged" && zone.role !== "loss" && run !== topRun) alpha = 0.45;
      return {
        colour,
        alpha,
        width: Math.max(1, wide * ratio),
        ...(plan.mode === "merged" && { dash: style.dash.map((d) => d * ratio) }),
      };
    };

    ctx.save();
    if (plan.mode === "lanes") {
      clip(ctx, left, top + zone.band.top * ratio, width, (zone.band.bottom - zone.band.top) * ratio);
    }
    for (const run of order) {
      for (const s of own(run)) {
        if (s.current) continue;
        const faded: Stroke = { colour: look(run).colour, width: Math.max(1, 1.25 * ratio), alpha: 0.5 };
        if (style.shape === "curve") {
          const c = columns(s);
          paintLine(ctx, c, c.last, y, faded, null, 2 * ratio);
        } else paintSteps(ctx, columns(s), y, faded, null, 2 * ratio);
      }
    }
    if (style.shape === "curve") {
      for (const run of order) {
        const lit = run.run === scene.hovered;
        const alpha = scene.runs.length > 6 && lit ? 0.22 : density.band;
        if (alpha === 0) continue;
        for (const s of own(run))
          if (s.current) drawRaw(frame, s, columns, y, look(run), alpha, density.raw, scene);
      }
    }
    for (const run of order) {
      const line = look(run);
      const halo: Stroke | null =
        density.halo && plan.mode === "lanes" && zone.role !== "loss"
          ? null
          : density.halo
            ? haloOf(line, tokens.surface, ratio)
            : null;
      for (const s of own(run)) {
        if (!s.current) continue;
        const c = columns(s);
        if (style.shape === "steps") paintSteps(ctx, c, y, line, halo, 2.5 * ratio);
        else paintLine(ctx, c, scene.smoothing > 0 ? c.smoothed : c.last, y, line, halo, 2.5 * ratio);
      }
    }
    ctx.restore();

    if (zone.empty) drawEmptyZone(frame, zone, scene);
    if (density.labels && wantsLabels(zone, plan, scene)) {
      for (const run of scene.runs) {
        const label = endLabel(frame, plan, zone, scene, run, own(run), y, scale, offset, oneMerged);
        if (label) labels.push(label);
      }
    }
    drawNonFinite(frame, plan, zone, scene, scale, offset, tokens.critical);
  }
  drawOverflow(frame, plan, scene, scale, offset, tokens.text2, oneMerged ? tokens.loss_scale : null);
  ctx.restore();
  drawLabels(frame, labels, scene);
}

/** The last one lies on top: the hovered run, else the one chosen first. */
function drawOrder(scene: Scene): DrawnRun[] {
  const order = [...scene.runs].reverse();
  const lit = order.findIndex((r) => r.run === scene.hovered);
  if (lit >= 0) order.push(...order.splice(lit, 1));
  return order;
}

function clip(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number): void {
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
}

const haloOf = (line: Stroke, surface: string, ratio: number): Stroke => ({
  colour: surface,
  width: line.width + 2 * ratio,
  alpha: 0.85,
});

/** Under the smoothed line: every point as a faint line, or min to max per pixel where they are too many. */
function drawRaw(
  frame: Frame,
  s: Segment,
  columns: (s: Segment) => ReturnType<typeof pixelColumns>,
  y: YScale,
  line: Stroke,
  band: number,
  raw: number,
  scene: Scene,
): void {
  const { ctx, ratio } = frame;
  const c = columns(s);
  const crowded = c.density * ratio > 0.6 || !s.raw;
  if (crowded) {
    const spacing = c.density > 0 ? 1.5 / c.density : 0;
    paintBand(ctx, c, y, s.raw ? 0 : spacing, { colour: line.colour, alpha: band * line.alpha });
  } else if (scene.smoothing > 0 && raw > 0) {
    paintLine(
      ctx,
      c,
      c.last,
      y,
      { colour: line.colour, width: Math.max(1, ratio), alpha: raw },
      null,
      2 * ratio,
    );
  }
}

function drawRestartLines(frame: Frame, plan: Plan, marks: readonly Mark[], colour: string): void {
  const { ctx, left, top, width, height, ratio } = frame;
  const xs = marks
    .filter((m) => m.kind === "restart")
    .map((m) => crisp(left + ((m.x - plan.window.from) / (plan.window.to - plan.window.from)) * width));
  if (xs.length === 0) return;
  ctx.beginPath();
  for (const x of xs) {
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
  }
  ctx.strokeStyle = colour;
  ctx.globalAlpha = 0.5;
  ctx.lineWidth = Math.max(1, ratio);
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

function drawNonFinite(
  frame: Frame,
  plan: Plan,
  zone: Zone,
  scene: Scene,
  scale: number,
  offset: number,
  colour: string,
): void {
  const xs: number[] = [];
  for (const s of scene.segments) {
    if (s.role !== zone.role || !s.nonfinite) continue;
    for (const i of s.nonfinite.idx) xs.push(s.x[i]! * scale + offset);
  }
  if (xs.length === 0) return;
  const bottom = plan.mode === "lanes" ? zone.band.bottom * frame.ratio : frame.height;
  const lift =
    plan.mode === "lanes" && zone.role === "loss_scale" ? overflowRow(OVERFLOW_ROWS) * frame.ratio : 0;
  paintRug(frame.ctx, xs, frame.top + bottom - frame.ratio - lift, NAN_RUG * frame.ratio, {
    colour,
    width: 1.25 * frame.ratio,
    alpha: 1,
  });
}

function drawOverflow(
  frame: Frame,
  plan: Plan,
  scene: Scene,
  scale: number,
  offset: number,
  neutral: string,
  single: string | null,
): void {
  const zone = plan.zones.find((z) => z.role === "loss_scale");
  if (!zone) return;
  const rows = scene.runs.length <= OVERFLOW_ROWS;
  const bottom = plan.mode === "lanes" ? zone.band.bottom : frame.height / frame.ratio - NAN_RUG - 3;
  scene.runs.forEach((run, row) => {
    const xs: number[] = [];
    for (const s of scene.segments) {
      if (s.role !== "overflow" || s.run !== run.run) continue;
      for (let i = 0; i < s.n; i++) if (s.max[i]! > 0) xs.push(s.x[i]! * scale + offset);
    }
    if (xs.length === 0) return;
    const y = frame.top + (bottom - 1 - (rows ? overflowRow(row) : 0)) * frame.ratio;
    paintRug(frame.ctx, xs, y, OVERFLOW_RUG * frame.ratio, {
      colour: rows ? (single ?? run.colour) : neutral,
      width: 1.25 * frame.ratio,
      alpha: rows ? 1 : 0.5,
    });
  });
}

function drawEmptyZone(frame: Frame, zone: Zone, scene: Scene): void {
  const { ctx, left, top, width, ratio } = frame;
  const own = scene.segments.filter((s) => s.role === zone.role);
  const what = describeNonFinite(own);
  ctx.font = `${12 * ratio}px ${FONT_FAMILY}`;
  ctx.fillStyle = TOKENS[scene.theme].text3;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const middle = top + ((zone.band.top + zone.band.bottom) / 2) * ratio;
  const name = text.axisTitle[zone.role];
  const sentence = what ? text.chart.allNonFinite(what) : text.chart.nothingHere;
  ctx.fillText(`${name}: ${sentence}`, left + width / 2, middle);
}

const wantsLabels = (zone: Zone, plan: Plan, scene: Scene): boolean =>
  scene.runs.length === 1 || zone === plan.zones[0];

function endLabel(
  frame: Frame,
  plan: Plan,
  zone: Zone,
  scene: Scene,
  run: DrawnRun,
  segments: readonly Segment[],
  y: YScale,
  scale: number,
  offset: number,
  oneMerged: boolean,
): Label | null {
  let best: { x: number; value: number } | null = null;
  for (const s of segments) {
    if (!s.current) continue;
    const values =
      ROLE_STYLE[zone.role].shape === "curve" && scene.smoothing > 0 ? (s.smoothed ?? s.last) : s.last;
    let i = lowerBound(s.x, plan.window.to);
    if (i >= s.n || s.x[i]! > plan.window.to) i--;
    while (i >= 0 && !(s.last[i]! === s.last[i]! && Number.isFinite(y.transform(values[i]!)))) i--;
    if (i < 0 || s.x[i]! < plan.window.from) continue;
    if (!best || s.x[i]! > best.x) best = { x: s.x[i]!, value: values[i]! };
  }
  if (!best) return null;
  const tokens = TOKENS[scene.theme];
  return {
    x: best.x * scale + offset,
    y: Math.max(frame.top, toPixel(y, best.value)),
    swatch: scene.runs.length > 1 ? run.colour : null,
    name: scene.runs.length > 1 ? run.label : oneMerged ? text.axisTitle[zone.role] : "",
    nameColour: oneMerged ? tokens[zone.role] : tokens.text,
    value: shortValue(best.value, zone.role),
    zone,
  };
}

function shortValue(v: number, role: OverlayRole): string {
  if (role === "loss") return formatSignificant(v, 3);
  if (role === "loss_scale") return formatScale(v);
  return formatValue(v, role);
}

const LABEL_FONT = 11;

function drawLabels(frame: Frame, labels: readonly Label[], scene: Scene): void {
  const { ctx, left, top, width, height, ratio } = frame;
  if (labels.length === 0) return;
  const tokens = TOKENS[scene.theme];
  const bold = `600 ${LABEL_FONT * ratio}px ${FONT_FAMILY}`;
  const plain = `${LABEL_FONT * ratio}px ${FONT_FAMILY}`;
  const gap = 9 * ratio;
  const right = left + width;
  ctx.save();
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.lineJoin = "round";
  const measured = labels.map((label) => {
    ctx.font = bold;
    const name = label.name ? ctx.measureText(`${label.name} `).width : 0;
    ctx.font = plain;
    const value = ctx.measureText(label.value).width;
    const swatch = label.swatch ? 12 * ratio : 0;
    const size = swatch + name + value;
    const flip = label.x + gap + size > right;
    // Turned to the left a label would lie on its own line: it moves above it.
    return { name, swatch, size, flip, at: flip ? label.x - gap - size : label.x + gap };
  });
  const boxes = labels.map(
    (label, i): LabelBox => ({
      left: measured[i]!.at,
      width: measured[i]!.size,
      y: label.y - (measured[i]!.flip ? 11 * ratio : 0),
    }),
  );
  const half = 7 * ratio;
  const placed = separateLabels(boxes, LABEL_APART * ratio, top + half, top + height - half);
  labels.forEach((label, i) => {
    const { at, name, swatch, flip } = measured[i]!;
    const y = placed[i]!;
    if (!flip && Math.abs(y - label.y) > 5 * ratio) {
      ctx.beginPath();
      ctx.moveTo(label.x + 2 * ratio, label.y);
      ctx.lineTo(at - 2 * ratio, y);
      ctx.strokeStyle = tokens.control;
      ctx.lineWidth = Math.max(1, 0.75 * ratio);
      ctx.stroke();
    }
    if (label.swatch) {
      ctx.fillStyle = label.swatch;
      ctx.beginPath();
      ctx.roundRect(at, y - 4 * ratio, 8 * ratio, 8 * ratio, 2 * ratio);
      ctx.fill();
    }
    const write = (what: string, font: string, colour: string, x: number) => {
      ctx.font = font;
      ctx.strokeStyle = tokens.surface;
      ctx.lineWidth = 3 * ratio;
      ctx.strokeText(what, x, y);
      ctx.fillStyle = colour;
      ctx.fillText(what, x, y);
    };
    if (label.name) write(label.name, bold, label.nameColour, at + swatch);
    write(label.value, plain, tokens.text, at + swatch + name);
  });
  ctx.restore();
}
