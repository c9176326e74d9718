/**
 * The overlay on a uPlot instance. uPlot owns size, scales, axes, cursor and selection; its series
 * stay empty (one per role, only to have a scale), because its own paths bridge NaN and cannot draw
 * runs that each have their own x. All curves are painted in its draw hooks.
 */
import uPlot from "uplot";
import type { OverlayRole } from "../roles";
import { TOKENS } from "../theme";
import { FONT_FAMILY, painting } from "./canvas";
import { drawScene } from "./draw";
import { drawGrid } from "./grid";
import { findMarks, type Mark } from "./marks";
import { type Reading, type Readings, readAt } from "./nearest";
import { toPixel } from "./paint";
import { type Plan, planOverlay, zoneScale } from "./plan";
import type { Scene } from "./scene";
import { lowerBound, type Window } from "./window";

export interface AxisPlace {
  readonly role: OverlayRole;
  readonly side: "left" | "right";
  /** CSS px in the host; the edge that touches the plot is `left + width` or `left`. */
  readonly left: number;
  readonly width: number;
}

/** Where things are, for the HTML around the canvas: titles, pills, tooltip. */
export interface Layout {
  readonly plan: Plan;
  readonly marks: readonly Mark[];
  readonly axes: readonly AxisPlace[];
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface CursorAt {
  /** CSS px in the host. */
  readonly left: number;
  readonly top: number;
  readonly x: number;
  readonly readings: Readings;
  readonly nearest: string | null;
}

export interface OverlayEvents {
  onZoom(window: Window): void;
  onReset(): void;
  onLayout(layout: Layout): void;
  onCursor(cursor: CursorAt | null): void;
}

const LANES_LEFT = 54;
const INNER = 46;
const OUTER = 50;
const X_AXIS = 38;
const TOP = { lanes: 28, merged: 66 };
const RIGHT = 20;
const LABEL_CHAR = 6.4;

/** Merged: loss and loss scale on the left, grad norm and lr on the right; inner axes first. */
const SIDES: Record<OverlayRole, "left" | "right"> = {
  loss: "left",
  loss_scale: "left",
  grad_norm: "right",
  lr: "right",
};

/**
 * What one uPlot instance shows. uPlot asks for ranges and ticks later than it was told to draw, even after it
 * was destroyed; an instance therefore keeps what it was made for, and never sees its successor's plan.
 */
interface Picture {
  /** Two scenes of one structure can be shown by one instance: it has the scales of both. */
  readonly structure: string;
  scene: Scene;
  plan: Plan;
  alive: boolean;
}

export class OverlayChart {
  private plot: uPlot | null = null;
  private picture: Picture | null = null;
  private marks: readonly Mark[] = [];
  private scene: Scene | null = null;
  private size = { width: 0, height: 0 };
  private pan: Window | null = null;
  private readonly cursorLayer = document.createElement("canvas");

  constructor(
    private readonly host: HTMLElement,
    private readonly events: OverlayEvents,
  ) {
    this.cursorLayer.className = "cursor-layer";
    host.append(this.cursorLayer);
  }

  show(scene: Scene): void {
    const marksStale = this.scene?.segments !== scene.segments || this.scene.x !== scene.x;
    this.scene = scene;
    if (marksStale) {
      const restarts = new Map(scene.runs.map((r) => [r.run, r.info.restarts]));
      this.marks = findMarks(scene.segments, scene.x, restarts, scene.loaded);
    }
    this.update();
  }

  /** A hidden tab has no size; the chart then waits. */
  resize(width: number, height: number): void {
    if (width === this.size.width && height === this.size.height) return;
    this.size = { width, height };
    this.update();
  }

  destroy(): void {
    this.drop();
    this.cursorLayer.remove();
  }

  private drop(): void {
    if (this.picture) this.picture.alive = false;
    this.plot?.destroy();
    this.plot = null;
    this.picture = null;
  }

  /** Moves the cursor to the next logged point of the uppermost run. */
  stepCursor(by: number): void {
    const { plot, picture } = this;
    if (!plot || !picture) return;
    const { scene, plan } = picture;
    const lead = scene.runs[0]?.run;
    const role = scene.roles.find((r) =>
      scene.segments.some((s) => s.run === lead && s.role === r && s.n > 0),
    );
    const xs = scene.segments
      .filter((s) => s.run === lead && s.role === role && s.current)
      .flatMap((s) => Array.from(s.x))
      .filter((x) => x >= plan.window.from && x <= plan.window.to)
      .sort((a, b) => a - b);
    if (xs.length === 0) return;
    const shown = (plot.cursor.left ?? -1) >= 0;
    const here = shown ? plot.posToVal(plot.cursor.left!, "x") : xs[0]!;
    const columns = Float64Array.from(xs);
    let at = lowerBound(columns, here);
    if (at > 0 && (at === xs.length || here - xs[at - 1]! < xs[at]! - here)) at--;
    if (shown) at = Math.max(0, Math.min(xs.length - 1, at + by));
    else at = by < 0 ? xs.length - 1 : 0;
    const zone = plan.zones[0]!;
    plot.setCursor({ left: plot.valToPos(xs[at]!, "x"), top: zone.band.top + 8 });
  }

  hideCursor(): void {
    this.plot?.setCursor({ left: -10, top: -10 });
  }

  private axesOf(scene: Scene): AxisPlace[] {
    if (scene.mode === "lanes") {
      return scene.roles.map((role) => ({ role, side: "left" as const, left: 0, width: LANES_LEFT }));
    }
    const places: AxisPlace[] = [];
    const { width } = this.size;
    for (const side of ["left", "right"] as const) {
      const inner: OverlayRole[] = side === "left" ? ["loss", "loss_scale"] : ["grad_norm", "lr"];
      const here = inner.filter((role) => SIDES[role] === side && scene.roles.includes(role));
      const widths = here.map((_, i) => (i === 0 ? INNER : OUTER));
      const all = widths.reduce((a, b) => a + b, 0);
      let used = 0;
      here.forEach((role, i) => {
        const w = widths[i]!;
        const left = side === "left" ? all - used - w : width - all + used;
        places.push({ role, side, left, width: w });
        used += w;
      });
    }
    return places;
  }

  private margins(scene: Scene): { left: number; right: number; padLeft: number; padRight: number } {
    const axes = this.axesOf(scene);
    const sum = (side: string) => axes.filter((a) => a.side === side).reduce((n, a) => n + a.width, 0);
    if (scene.mode === "lanes") return { left: LANES_LEFT, right: 0, padLeft: 0, padRight: RIGHT };
    const left = sum("left");
    const right = sum("right");
    return { left, right, padLeft: left ? 0 : RIGHT, padRight: right ? 0 : RIGHT };
  }

  private update(): void {
    const { scene, size } = this;
    if (!scene || size.width < 40 || size.height < 40) return;
    const m = this.margins(scene);
    const plotWidth = Math.max(20, size.width - m.left - m.right - m.padLeft - m.padRight);
    const plotHeight = Math.max(20, size.height - TOP[scene.mode] - X_AXIS);
    const plan = planOverlay({
      segments: scene.segments,
      roles: scene.roles,
      mode: scene.mode,
      x: scene.x,
      zoom: this.pan ?? scene.zoom,
      loaded: scene.loaded,
      y: scene.y,
      totalSteps: scene.totalSteps,
      width: plotWidth,
      height: plotHeight,
      labelRoom: labelRoom(scene),
    });
    const structure = `${scene.mode}|${scene.roles.join()}|${scene.theme}|${scene.runs.length === 1}`;
    const { plot, picture } = this;
    if (plot && picture?.structure === structure) {
      picture.scene = scene;
      picture.plan = plan;
      if (plot.width !== size.width || plot.height !== size.height) plot.setSize(size);
      plot.setData(emptyColumns(picture), true);
      return;
    }
    this.drop();
    this.picture = { structure, scene, plan, alive: true };
    this.plot = this.create(this.picture);
  }

  private create(picture: Picture): uPlot {
    const { scene } = picture;
    const tokens = TOKENS[scene.theme];
    const font = `11px ${FONT_FAMILY}`;
    const m = this.margins(scene);
    const coloured = scene.mode === "merged" && scene.runs.length === 1;
    const off = { show: false };
    const zoneOf = (role: string) => picture.plan.zones.find((z) => z.role === role)!;

    const places = this.axesOf(scene);
    const yAxes = places.map((place, i): uPlot.Axis => {
      // Lanes: all y axes share one column. uPlot stacks axes outwards by their size, so all but the
      // last take none.
      const shared = scene.mode === "lanes" && i < places.length - 1;
      return {
        scale: place.role,
        side: place.side === "left" ? 3 : 1,
        size: shared ? 0 : place.width,
        gap: 6,
        font,
        stroke: coloured ? tokens[place.role] : tokens.text3,
        grid: off,
        ticks: off,
        splits: () => zoneOf(place.role).ticks.map((t) => t.at),
        values: () => zoneOf(place.role).ticks.map((t) => t.label),
      };
    });

    const options: uPlot.Options = {
      ...this.size,
      legend: off,
      padding: [TOP[scene.mode], m.padRight, 0, m.padLeft],
      scales: {
        x: { time: false, range: () => [picture.plan.window.from, picture.plan.window.to] },
        ...Object.fromEntries(
          scene.roles.map((role) => [role, { range: () => [...zoneOf(role).range] as [number, number] }]),
        ),
      },
      series: [{}, ...scene.roles.map((role) => ({ scale: role, points: off, paths: () => null }))],
      axes: [
        {
          scale: "x",
          size: X_AXIS,
          gap: 8,
          font,
          stroke: tokens.text3,
          grid: off,
          ticks: off,
          splits: () => picture.plan.xTicks.map((t) => t.at),
          values: () => picture.plan.xTicks.map((t) => t.label),
        },
        ...yAxes,
      ],
      cursor: {
        x: false,
        y: false,
        points: off,
        drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: {
          dblclick: () => () => {
            this.events.onReset();
            return null;
          },
          mousedown: (_u, _target, handler) => (event) => {
            if (event.shiftKey) this.startPan(event);
            else handler(event);
            return null;
          },
        },
      },
      hooks: {
        drawClear: [(u) => picture.alive && drawGrid(paintingOf(u, picture), this.size.width)],
        draw: [
          (u) => {
            if (!picture.alive) return;
            drawScene(paintingOf(u, picture), this.marks);
            this.tellLayout(u, picture);
            this.moveCursor(u, picture);
          },
        ],
        setCursor: [(u) => picture.alive && this.moveCursor(u, picture)],
        setSelect: [(u) => picture.alive && this.takeSelection(u)],
      },
    };
    return new uPlot(options, emptyColumns(picture), this.host);
  }

  private tellLayout(u: uPlot, { plan, scene }: Picture): void {
    this.events.onLayout({ plan, marks: this.marks, axes: this.axesOf(scene), ...cssBox(u) });
  }

  private takeSelection(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, "x");
    const to = u.posToVal(left + width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.onZoom(this.rounded({ from, to }));
  }

  /** Counts have no fractions: a window over them begins and ends at whole ones. */
  private rounded({ from, to }: Window): Window {
    const axis = this.scene!.x;
    if (axis !== "step" && axis !== "tokens" && axis !== "samples") return { from, to };
    const low = Math.floor(from);
    return { from: low, to: Math.max(low + 1, Math.ceil(to)) };
  }

  private startPan(event: MouseEvent): void {
    const { plot, picture } = this;
    if (!plot || !picture) return;
    const begin = picture.plan.window;
    const perPixel = (begin.to - begin.from) / plot.over.clientWidth;
    const move = (e: MouseEvent) => {
      const by = (event.clientX - e.clientX) * perPixel;
      this.pan = { from: begin.from + by, to: begin.to + by };
      this.update();
    };
    const end = () => {
      document.removeEventListener("mousemove", move);
      document.removeEventListener("mouseup", end);
      const moved = this.pan;
      this.pan = null;
      if (moved) this.events.onZoom(this.rounded(moved));
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", end);
  }

  /** The cursor has a canvas of its own: moving it must not repaint the curves. */
  private moveCursor(u: uPlot, picture: Picture): void {
    const { scene, plan } = picture;
    const { cursorLayer } = this;
    const ratio = uPlot.pxRatio;
    const width = Math.round(this.size.width * ratio);
    const height = Math.round(this.size.height * ratio);
    if (cursorLayer.width !== width || cursorLayer.height !== height) {
      cursorLayer.width = width;
      cursorLayer.height = height;
    }
    const ctx = cursorLayer.getContext("2d")!;
    ctx.clearRect(0, 0, width, height);
    const left = u.cursor.left ?? -1;
    const top = u.cursor.top ?? -1;
    if (left < 0 || top < 0) {
      this.events.onCursor(null);
      return;
    }
    const box = cssBox(u);
    const x = u.posToVal(left, "x");
    const reach = (plan.window.to - plan.window.from) * (12 / Math.max(1, box.width));
    const all = readAt(
      scene.segments,
      scene.runs.map((r) => r.run),
      x,
      reach,
    );
    const distance = (row: Reading) => this.distance(row, plan, box.height, top);
    const rows = [...all.rows].sort(
      (a, b) => Number(a.superseded) - Number(b.superseded) || distance(a) - distance(b),
    );
    this.paintCursor(ctx, ratio, box, left, rows, picture);
    const first = rows[0];
    this.events.onCursor({
      left: box.left + left,
      top: box.top + top,
      x,
      readings: { rows, ended: all.ended },
      nearest: first && distance(first) < 24 ? first.run : null,
    });
  }

  private paintCursor(
    ctx: CanvasRenderingContext2D,
    ratio: number,
    box: ReturnType<typeof cssBox>,
    left: number,
    rows: readonly Reading[],
    { scene, plan }: Picture,
  ): void {
    const tokens = TOKENS[scene.theme];
    const lineX = Math.floor((box.left + left) * ratio) + 0.5;
    ctx.beginPath();
    ctx.moveTo(lineX, box.top * ratio);
    ctx.lineTo(lineX, (box.top + box.height) * ratio);
    ctx.strokeStyle = tokens.text2;
    ctx.lineWidth = 1;
    ctx.stroke();
    if (scene.runs.length > 20) return;
    const { from, to } = plan.window;
    const one = plan.mode === "merged" && scene.runs.length === 1;
    for (const row of [...rows].reverse()) {
      const colour = scene.runs.find((r) => r.run === row.run)?.colour ?? tokens.text;
      for (const zone of plan.zones) {
        const cell = row.cells[zone.role];
        if (!cell || !Number.isFinite(cell.value)) continue;
        const y = toPixel(zoneScale(zone, box.top, box.height), cell.value);
        const px = box.left + ((cell.x - from) / (to - from)) * box.width;
        if (!Number.isFinite(y) || y < box.top - 1 || px < box.left - 1 || px > box.left + box.width + 1)
          continue;
        ctx.beginPath();
        ctx.arc(px * ratio, y * ratio, (row.superseded ? 2.5 : 3.5) * ratio, 0, 2 * Math.PI);
        ctx.fillStyle = one ? tokens[zone.role] : colour;
        ctx.fill();
        ctx.strokeStyle = tokens.surface;
        ctx.lineWidth = 1.5 * ratio;
        ctx.stroke();
      }
    }
  }

  /** Vertical distance (CSS px) of a run's points from the pointer, in the zone the pointer is in. */
  private distance(row: Reading, plan: Plan, height: number, top: number): number {
    const inLane = plan.mode === "lanes" ? plan.zones.find((z) => top <= z.band.bottom + 15) : undefined;
    let best = Number.POSITIVE_INFINITY;
    for (const zone of inLane ? [inLane] : plan.zones) {
      const cell = row.cells[zone.role];
      if (!cell || !Number.isFinite(cell.value)) continue;
      best = Math.min(best, Math.abs(toPixel(zoneScale(zone, 0, height), cell.value) - top));
    }
    return best;
  }
}

function labelRoom(scene: Scene): number {
  if (scene.runs.length > 6) return 8;
  const longest = Math.max(...scene.runs.map((r) => (scene.runs.length > 1 ? r.label.length : 0)), 0);
  const name = scene.runs.length > 1 ? longest + 3 : scene.mode === "merged" ? 12 : 2;
  return Math.min(170, 22 + (name + 4) * LABEL_CHAR);
}

function emptyColumns({ plan, scene }: Picture): uPlot.AlignedData {
  const { from, to } = plan.window;
  return [[from, to], ...scene.roles.map(() => [null, null])] as uPlot.AlignedData;
}

function paintingOf(u: uPlot, { plan, scene }: Picture) {
  const { left, top, width, height } = u.bbox;
  const frame = { ctx: u.ctx, left, top, width, height, ratio: uPlot.pxRatio };
  return painting(frame, plan, scene);
}

function cssBox(u: uPlot) {
  const ratio = uPlot.pxRatio;
  return {
    left: u.bbox.left / ratio,
    top: u.bbox.top / ratio,
    width: u.bbox.width / ratio,
    height: u.bbox.height / ratio,
  };
}
