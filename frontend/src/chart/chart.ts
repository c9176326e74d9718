/**
 * A chart on a uPlot instance. uPlot owns size, scales and axes; its series stay empty (one per role, only to
 * have a scale), because its own paths bridge NaN and cannot draw runs that each have their own x. All curves
 * are painted in its draw hooks. Above the picture lie three transparent layers: the run that is lit, the
 * picture as it moves under a gesture, and the cursor.
 */
import uPlot from "uplot";
import type { ChartRole } from "../roles";
import { TOKENS } from "../theme";
import { coloursAreRoles, FONT_FAMILY, painting, roleColour } from "./canvas";
import { drawCursor, drawMarked, type Marked, type Place } from "./cursor";
import { drawLit, drawScene } from "./draw";
import { type AxisPlace, axesOf, BOTTOM, labelRoom, marginsOf, TOP } from "./frame";
import { Gestures, type Stretch } from "./gestures";
import { drawGrid } from "./grid";
import { Layer } from "./layer";
import { findMarks, type Mark } from "./marks";
import { type Reading, type Readings, readAt, stepFrom } from "./nearest";
import { toPixel } from "./paint";
import { type Plan, planChart, valueAt, type Zone, zoneScale } from "./plan";
import { drawMoved } from "./preview";
import type { Scene } from "./scene";
import { seriesIndex } from "./series";
import type { Window } from "./window";
import { wholeWindow, windowOf } from "./xscale";

/** Where things are, for the HTML around the canvas: titles, pills, tooltip. */
export interface ChartLayout extends Place {
  readonly plan: Plan;
  readonly marks: readonly Mark[];
  readonly axes: readonly AxisPlace[];
}

export interface CursorAt {
  /** CSS px in the host. */
  readonly left: number;
  readonly top: number;
  readonly x: number;
  readonly readings: Readings;
  readonly nearest: string | null;
}

export interface ChartEvents {
  onZoom(window: Window): void;
  onRange(role: ChartRole, range: readonly [number, number]): void;
  onReset(): void;
  onLayout(layout: ChartLayout): void;
  onCursor(cursor: CursorAt | null): void;
  /** Whether the cursor stays where it is, wherever the pointer goes. */
  pinned(): boolean;
  onPin(pinned: boolean): void;
  /** A stretch of x is being marked, and the picture is being moved: for the charts beside this one. */
  onMark(stretch: Window | null): void;
  onMove(window: Window): void;
}

const FINDINGS_MS = 250;
/** So long a stretched picture is put up with; then the points that are there are drawn, coarse as they may be. */
const POINTS_MS = 300;
/** CSS px from a curve within which the pointer is at it. */
const NEAR = 24;

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

export class Chart {
  private plot: uPlot | null = null;
  private picture: Picture | null = null;
  private marks: readonly Mark[] = [];
  private scene: Scene | null = null;
  private size = { width: 0, height: 0 };
  private lit: string | null = null;
  private marked: Marked | null = null;
  private cursor: { readonly x: number; readonly top: number | null } | null = null;
  private moving = false;
  private seen = true;
  private later = 0;
  private stale = false;
  private readonly litLayer: Layer;
  private readonly moveLayer: Layer;
  private readonly cursorLayer: Layer;
  private readonly gestures: Gestures;

  constructor(
    private readonly host: HTMLElement,
    private readonly events: ChartEvents,
  ) {
    this.litLayer = new Layer(host, "lit");
    this.moveLayer = new Layer(host, "moved");
    this.cursorLayer = new Layer(host, "cursor");
    this.gestures = new Gestures(host, {
      box: () => this.plotInWindow(),
      point: (at) => events.pinned() || this.pointAt(at),
      mark: (axis, stretch, begin) => this.mark(axis, stretch, begin),
      marked: (axis, stretch, begin) => this.takeMarked(axis, stretch, begin),
      move: (stretch) => this.move(stretch),
      moved: (stretch) => this.takeMoved(stretch),
      click: (at) => this.pin(at),
      reset: () => events.onReset(),
    });
  }

  show(scene: Scene): void {
    const before = this.scene;
    this.scene = scene;
    window.clearTimeout(this.later);
    // A position in steps means nothing on an axis of hours.
    if (before && before.x !== scene.x) this.hideCursor();
    // Findings come run by run; the picture need not be drawn anew for each.
    if (before && sameButFindings(before, scene)) {
      this.later = window.setTimeout(() => {
        this.marks = findMarks(scene);
        this.update();
      }, FINDINGS_MS);
      return;
    }
    if (before && scene.zoom && this.plot && onlyWindowMoved(before, scene)) {
      // Its own points are on their way: until then the old picture, stretched, costs next to nothing.
      this.preview(scene.zoom);
      this.later = window.setTimeout(() => this.update(), POINTS_MS);
      return;
    }
    const same = (key: "segments" | "x" | "findings" | "comparing") => before?.[key] === scene[key];
    if (!same("segments") || !same("x") || !same("findings") || !same("comparing")) {
      this.marks = findMarks(scene);
    }
    this.update();
  }

  /** A chart that is scrolled out of sight waits with its drawing until it is seen. */
  inSight(seen: boolean): void {
    this.seen = seen;
    if (seen && this.stale) this.update();
  }

  /** A hidden tab has no size; the chart then waits. */
  resize(width: number, height: number): void {
    if (width === this.size.width && height === this.size.height) return;
    this.size = { width, height };
    this.update();
  }

  destroy(): void {
    window.clearTimeout(this.later);
    this.gestures.destroy();
    this.drop();
    for (const layer of [this.litLayer, this.moveLayer, this.cursorLayer]) layer.remove();
  }

  /** The picture as it is, for an export. */
  get canvas(): HTMLCanvasElement | null {
    return this.plot?.ctx.canvas ?? null;
  }

  /** Draws what waits until it is in sight; it is there in the next frame. */
  catchUp(): void {
    if (this.stale) this.update(true);
  }

  /** Paints the picture once more, at once: for whoever writes down what is painted. */
  repaint(): void {
    const { plot } = this;
    plot?.batch(() => plot.redraw(false));
  }

  /** One run on top of the others, which fade; null: all alike. */
  light(run: string | null): void {
    if (run === this.lit) return;
    this.lit = run;
    this.drawLit();
  }

  /** The cursor's line at a position that another chart's pointer is at. */
  pointTo(x: number | null): void {
    this.cursor = x === null ? null : { x, top: null };
    this.drawCursor();
  }

  /** A stretch that is being marked in another chart. */
  markTo(stretch: Window | null): void {
    this.marked = stretch && { axis: "x", ...stretch };
    this.drawCursor();
  }

  /** The picture moved and stretched to another window, until the next one is drawn. */
  preview(window: Window): void {
    const { plot, picture } = this;
    if (!plot || !picture) return;
    this.moving = true;
    this.host.parentElement?.classList.add("moving");
    const ctx = this.moveLayer.clear(this.size, uPlot.pxRatio);
    drawMoved(ctx, plot.ctx.canvas, paintingOf(plot, picture), window);
  }

  /** Moves the cursor by so many logged points of the uppermost run. */
  stepCursor(by: number): void {
    const { picture, plot } = this;
    if (!picture || !plot) return;
    const { scene, plan } = picture;
    const lead = scene.runs.find((r) => r.run === this.lit)?.run ?? scene.runs[0]?.run;
    const index = seriesIndex(scene.segments);
    const series = scene.roles.map((role) => index.of(role, lead ?? "").filter((s) => s.current && s.n > 0));
    const x = stepFrom(series.find((own) => own.length > 0) ?? [], plan.window, this.cursor?.x ?? null, by);
    if (x === null) return;
    const { height } = cssBox(plot);
    this.pointAt({ x: plan.x.fraction(x), y: ((plan.zones[0]?.band.top ?? 0) + 8) / height }, x);
  }

  hideCursor(): void {
    this.events.onPin(false);
    this.pointAt(null);
  }

  private pin(at: { readonly x: number; readonly y: number }): void {
    this.events.onPin(!this.events.pinned());
    this.pointAt(at);
  }

  private drop(): void {
    if (this.picture) this.picture.alive = false;
    this.plot?.destroy();
    this.plot = null;
    this.picture = null;
  }

  private update(evenUnseen = false): void {
    const { scene, size } = this;
    if (!scene || size.width < 40 || size.height < 40) return;
    this.stale = !this.seen && !evenUnseen;
    if (this.stale) return;
    const m = marginsOf(scene);
    const plan = planChart({
      ...scene,
      width: Math.max(20, size.width - m.left - m.right - m.padLeft - m.padRight),
      height: Math.max(20, size.height - TOP[scene.layout] - BOTTOM[scene.layout]),
      labelRoom: labelRoom(scene),
    });
    const structure = `${scene.layout}|${scene.roles.join()}|${scene.theme}|${scene.runs.length === 1}`;
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
    const m = marginsOf(scene);
    const coloured = coloursAreRoles(scene);
    const off = { show: false };
    const zoneOf = (role: string) => picture.plan.zones.find((z) => z.role === role)!;

    const places = axesOf(scene, this.size.width);
    const yAxes = places.map((place, i): uPlot.Axis => {
      // Lanes: all y axes share one column. uPlot stacks axes outwards by their size, so all but the
      // last take none.
      const shared = scene.layout !== "merged" && i < places.length - 1;
      return {
        scale: place.role,
        side: place.side === "left" ? 3 : 1,
        size: shared ? 0 : place.width,
        gap: 6,
        font,
        stroke: coloured ? roleColour(tokens, place.role) : tokens.text3,
        grid: off,
        ticks: off,
        splits: () => zoneOf(place.role).ticks.map((t) => t.at),
        values: () => zoneOf(place.role).ticks.map((t) => t.label),
      };
    });

    const options: uPlot.Options = {
      ...this.size,
      legend: off,
      padding: [TOP[scene.layout], m.padRight, 0, m.padLeft],
      scales: {
        x: { time: false, range: () => [...picture.plan.x.ends] as [number, number] },
        ...Object.fromEntries(
          scene.roles.map((role) => [role, { range: () => [...zoneOf(role).range] as [number, number] }]),
        ),
      },
      series: [{}, ...scene.roles.map((role) => ({ scale: role, points: off, paths: () => null }))],
      axes: [
        {
          scale: "x",
          size: BOTTOM[scene.layout],
          gap: scene.layout === "panel" ? 6 : 8,
          font,
          stroke: tokens.text3,
          grid: off,
          ticks: off,
          splits: () => picture.plan.xTicks.map((t) => t.at),
          values: () => picture.plan.xTicks.map((t) => t.label),
        },
        ...yAxes,
      ],
      cursor: { show: false },
      hooks: {
        drawClear: [(u) => picture.alive && drawGrid(paintingOf(u, picture), this.size.width)],
        draw: [
          (u) => {
            if (!picture.alive) return;
            drawScene(paintingOf(u, picture), this.marks);
            this.drawn(u, picture);
          },
        ],
      },
    };
    return new uPlot(options, emptyColumns(picture), this.host);
  }

  /** A new picture is there: what lay over the old one goes, or is drawn anew over this one. */
  private drawn(u: uPlot, { plan, scene }: Picture): void {
    if (this.moving) {
      this.moving = false;
      this.host.parentElement?.classList.remove("moving");
      this.moveLayer.clear(this.size, uPlot.pxRatio);
    }
    this.events.onLayout({ plan, marks: this.marks, axes: axesOf(scene, this.size.width), ...cssBox(u) });
    this.drawLit();
    if (this.cursor?.top != null) this.tellCursor();
    this.drawCursor();
  }

  private drawLit(): void {
    const { plot, picture, lit } = this;
    if (!plot || !picture) return;
    const ctx = this.litLayer.clear(this.size, uPlot.pxRatio);
    const { runs } = picture.scene;
    if (lit === null || runs.length < 2 || !runs.some((r) => r.run === lit)) return;
    drawLit({ ...paintingOf(plot, picture), ctx }, lit, this.marks);
  }

  private plotInWindow() {
    if (!this.plot) return null;
    const at = this.host.getBoundingClientRect();
    const box = cssBox(this.plot);
    return { left: at.left + box.left, top: at.top + box.top, width: box.width, height: box.height };
  }

  private pointAt(at: { readonly x: number; readonly y: number } | null, exactly?: number): void {
    const { plot, picture } = this;
    if (!plot || !picture) return;
    this.cursor = at && { x: exactly ?? picture.plan.x.at(at.x), top: at.y * cssBox(plot).height };
    this.tellCursor();
    this.drawCursor();
  }

  private tellCursor(): void {
    const { plot, picture, cursor } = this;
    if (!plot || !picture) return;
    const at = cursor ? picture.plan.x.fraction(cursor.x) : Number.NaN;
    // One that is kept may have been left behind by a zoom.
    if (!cursor || !onPlot(at)) {
      this.events.onCursor(null);
      return;
    }
    const box = cssBox(plot);
    const top = cursor.top ?? 0;
    const { plan } = picture;
    const distance = (row: Reading) => distanceTo(row, plan, box.height, top);
    const all = this.read(cursor.x, picture, box);
    const rows = [...all.rows].sort(
      (a, b) => Number(a.superseded) - Number(b.superseded) || distance(a) - distance(b),
    );
    const first = rows[0];
    this.events.onCursor({
      left: box.left + at * box.width,
      top: box.top + top,
      x: cursor.x,
      readings: { rows, ended: all.ended },
      nearest: first && distance(first) < NEAR ? first.run : null,
    });
  }

  private read(x: number, { scene, plan }: Picture, box: Place): Readings {
    const at = plan.x.fraction(x);
    const reach = Math.abs(plan.x.at(at + 12 / Math.max(1, box.width)) - x);
    return readAt(
      scene.segments,
      scene.runs.map((r) => r.run),
      x,
      reach,
      scene.roles,
    );
  }

  private drawCursor(): void {
    const { plot, picture, cursor, marked } = this;
    if (!plot || !picture) return;
    const ctx = this.cursorLayer.clear(this.size, uPlot.pxRatio);
    const p = { ...paintingOf(plot, picture), ctx };
    if (marked) drawMarked(p, marked);
    if (!cursor) return;
    if (!onPlot(picture.plan.x.fraction(cursor.x))) return;
    const { rows } = this.read(cursor.x, picture, cssBox(plot));
    drawCursor(p, cursor.x, rows, this.lit);
  }

  private mark(axis: "x" | "y", stretch: Stretch | null, begin: number): void {
    const { picture, plot } = this;
    if (!picture || !plot) return;
    if (axis === "x") {
      const window = stretch && windowOf(picture.plan.x, stretch.from, stretch.to);
      this.events.onMark(window);
      this.markTo(window);
      return;
    }
    const zone = zoneAt(picture.plan, begin * cssBox(plot).height);
    this.marked = stretch && zone ? { axis: "y", ...stretch, band: zone.band } : null;
    this.drawCursor();
  }

  private takeMarked(axis: "x" | "y", { from, to }: Stretch, begin: number): void {
    const { plot, picture } = this;
    if (!plot || !picture) return;
    const { plan, scene } = picture;
    if (axis === "x") {
      this.events.onZoom(wholeWindow(windowOf(plan.x, from, to), scene.x));
      return;
    }
    const { height } = cssBox(plot);
    const zone = zoneAt(plan, begin * height);
    if (!zone) return;
    const within = (y: number) => Math.max(zone.band.top, Math.min(zone.band.bottom, y * height));
    const low = valueAt(zone, within(to), height);
    const high = valueAt(zone, within(from), height);
    if (low < high) this.events.onRange(zone.role, [low, high]);
  }

  private move(stretch: Stretch): void {
    if (!this.picture) return;
    const window = windowOf(this.picture.plan.x, stretch.from, stretch.to);
    this.preview(window);
    this.events.onMove(window);
  }

  private takeMoved(stretch: Stretch): void {
    if (!this.picture) return;
    const { plan, scene } = this.picture;
    this.events.onZoom(wholeWindow(windowOf(plan.x, stretch.from, stretch.to), scene.x));
  }
}

/** Parts of a scene that are made anew with it, and are small. */
const SMALL: ReadonlySet<keyof Scene> = new Set(["roles", "zoom", "loaded", "selected"]);

const sameButFindings = (a: Scene, b: Scene): boolean =>
  a.findings !== b.findings && sameBut(a, b, ["findings"]);

const onlyWindowMoved = (a: Scene, b: Scene): boolean =>
  b.pending && JSON.stringify(a.zoom) !== JSON.stringify(b.zoom) && sameBut(a, b, ["zoom", "pending"]);

function sameBut(a: Scene, b: Scene, but: readonly (keyof Scene)[]): boolean {
  const keys = Object.keys(b) as (keyof Scene)[];
  return keys.every((key) => {
    if (but.includes(key) || a[key] === b[key]) return true;
    if (key === "runs") return sameRuns(a.runs, b.runs);
    return SMALL.has(key) && JSON.stringify(a[key]) === JSON.stringify(b[key]);
  });
}

const sameRuns = (a: Scene["runs"], b: Scene["runs"]): boolean =>
  a.length === b.length &&
  a.every((run, i) => run.info === b[i]!.info && run.colour === b[i]!.colour && run.label === b[i]!.label);

/** Whether a fraction of the plot's width is on the plot. */
const onPlot = (at: number): boolean => at >= -1e-9 && at <= 1 + 1e-9;

/** The zone a height (CSS px from the plot's top) belongs to; in Merged the first one. */
const zoneAt = (plan: Plan, y: number): Zone | undefined =>
  plan.layout === "merged"
    ? plan.zones[0]
    : (plan.zones.find((z) => y <= z.band.bottom + 15) ?? plan.zones.at(-1));

/** Vertical distance (CSS px) of a run's points from the pointer, in the zone the pointer is in. */
function distanceTo(row: Reading, plan: Plan, height: number, top: number): number {
  const zone = plan.layout === "merged" ? undefined : zoneAt(plan, top);
  let best = Number.POSITIVE_INFINITY;
  for (const one of zone ? [zone] : plan.zones) {
    const cell = row.cells[one.role];
    if (!cell || !Number.isFinite(cell.value)) continue;
    best = Math.min(best, Math.abs(toPixel(zoneScale(one, 0, height), cell.value) - top));
  }
  return best;
}

function emptyColumns({ plan, scene }: Picture): uPlot.AlignedData {
  return [[...plan.x.ends], ...scene.roles.map(() => [null, null])] as uPlot.AlignedData;
}

function paintingOf(u: uPlot, { plan, scene }: Picture) {
  const { left, top, width, height } = u.bbox;
  const frame = { ctx: u.ctx, left, top, width, height, ratio: uPlot.pxRatio };
  return painting(frame, plan, scene);
}

function cssBox(u: uPlot): Place {
  const ratio = uPlot.pxRatio;
  return {
    left: u.bbox.left / ratio,
    top: u.bbox.top / ratio,
    width: u.bbox.width / ratio,
    height: u.bbox.height / ratio,
  };
}
