/** What every part of the painting shares: the plot's place on the canvas, the plan, and the mapping of x. */
import type { Segment } from "../decode";
import { isTime, type OverlayRole, type Role } from "../roles";
import { TOKENS, type Tokens } from "../theme";
import { type Breaks, type Columns, NO_BREAKS, pixelColumns } from "./columns";
import type { LabelBox } from "./labels";
import type { Plan } from "./plan";
import type { Scene } from "./scene";
import { type SeriesIndex, seriesIndex } from "./series";
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
  readonly index: SeriesIndex;
  /** Words on the picture so far, for others to keep clear of. */
  readonly written: LabelBox[];
  px(x: number): number;
  columns(s: Segment): Columns;
  segments(role: Role, run: string): readonly Segment[];
}

export function painting(frame: Frame, plan: Plan, scene: Scene): Painting {
  const { x, window } = plan;
  const index = seriesIndex(scene.segments);
  const [t0, t1] = x.ends;
  const scale = frame.width / (t1 - t0);
  const offset = frame.left - t0 * scale;
  // In time a curve pauses while nothing ran, and while what ran was superseded later.
  const breaksOf = (s: Segment): Breaks => ({
    gap: longestBridge(s),
    at: s.current ? superseded(index.of(s.role, s.run)).map((old) => old.x[old.n - 1]!) : [],
  });
  return {
    ...frame,
    plan,
    scene,
    index,
    written: [],
    tokens: TOKENS[scene.theme],
    coloursAreRoles: coloursAreRoles(scene),
    px: x.log ? (at) => Math.log10(at) * scale + offset : (at) => at * scale + offset,
    columns: (s) =>
      pixelColumns(s, window.from, window.to, {
        scale,
        offset,
        log: x.log,
        breaks: isTime(x.axis) ? breaksOf(s) : NO_BREAKS,
      }),
    segments: (role, run) => index.of(role, run),
  };
}

/** One run in one frame: there colour tells the role, everywhere else the run. */
export const coloursAreRoles = (scene: Scene): boolean =>
  scene.layout === "merged" && scene.runs.length === 1;

/** The colour of a role where colours are roles: only the overlay's have one. */
export const roleColour = (tokens: Tokens, role: Role): string => tokens[role as OverlayRole] ?? tokens.text;

const superseded = (segments: readonly Segment[]): Segment[] => segments.filter((s) => !s.current && s.n > 0);

/** A hairline is sharp in the middle of a pixel. */
export const crisp = (v: number): number => Math.floor(v) + 0.5;

export function clip(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number): void {
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
}
