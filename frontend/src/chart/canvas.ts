/** What every part of the painting shares: the plot's place on the canvas, the plan, and the mapping of x. */
import type { Segment } from "../decode";
import { isTime } from "../roles";
import { TOKENS, type Tokens } from "../theme";
import { type Breaks, type Columns, NO_BREAKS, pixelColumns } from "./columns";
import type { Plan } from "./plan";
import type { Scene } from "./scene";
import { longestBridge } from "./window";

export const FONT_FAMILY =
  'Roboto, "Segoe UI", -apple-system, "Helvetica Neue", Arial, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';

/** The plot area in canvas px. */
export interface Frame {
  readonly ctx: CanvasRenderingContext2D;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  /** Canvas px per CSS px. */
  readonly ratio: number;
}

export interface Painting extends Frame {
  readonly plan: Plan;
  readonly scene: Scene;
  readonly tokens: Tokens;
  /** One run in one frame: there colour tells the role, everywhere else the run. */
  readonly coloursAreRoles: boolean;
  px(x: number): number;
  columns(s: Segment): Columns;
  segments(role: string, run: string): readonly Segment[];
}

const NONE: readonly Segment[] = [];

export function painting(frame: Frame, plan: Plan, scene: Scene): Painting {
  const { from, to } = plan.window;
  const scale = frame.width / (to - from);
  const offset = frame.left - from * scale;
  const bySeries = new Map<string, Segment[]>();
  for (const s of scene.segments) {
    const key = `${s.role}\n${s.run}`;
    const own = bySeries.get(key);
    if (own) own.push(s);
    else bySeries.set(key, [s]);
  }
  // In time a curve pauses while nothing ran, and while what ran was superseded later.
  const breaksOf = (s: Segment): Breaks => ({
    gap: longestBridge(s),
    at: s.current ? superseded(bySeries.get(`${s.role}\n${s.run}`)).map((old) => old.x[old.n - 1]!) : [],
  });
  return {
    ...frame,
    plan,
    scene,
    tokens: TOKENS[scene.theme],
    coloursAreRoles: plan.mode === "merged" && scene.runs.length === 1,
    px: (x) => x * scale + offset,
    columns: (s) => pixelColumns(s, from, to, scale, offset, isTime(plan.x) ? breaksOf(s) : NO_BREAKS),
    segments: (role, run) => bySeries.get(`${role}\n${run}`) ?? NONE,
  };
}

const superseded = (segments: readonly Segment[] = NONE): Segment[] =>
  segments.filter((s) => !s.current && s.n > 0);

/** A hairline is sharp in the middle of a pixel. */
export const crisp = (v: number): number => Math.floor(v) + 0.5;

export function clip(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number): void {
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
}
