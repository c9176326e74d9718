/** How much of the host the axes and their titles take: everything around the plot itself. */
import type { ChartRole, OverlayRole } from "../roles";
import type { Layout, Scene } from "./scene";

export interface AxisPlace {
  readonly role: ChartRole;
  readonly side: "left" | "right";
  /** CSS px in the host; the edge that touches the plot is `left + width` or `left`. */
  readonly left: number;
  readonly width: number;
}

const LEFT = { lanes: 54, panel: 46 };
const INNER = 46;
const OUTER = 50;
const RIGHT = { lanes: 20, panel: 22, merged: 20 };

export const TOP: Record<Layout, number> = { lanes: 28, merged: 66, panel: 20 };
export const BOTTOM: Record<Layout, number> = { lanes: 38, merged: 38, panel: 24 };

/** Merged: loss and loss scale on the left, grad norm and lr on the right; inner axes first. */
const SIDES: Record<"left" | "right", readonly OverlayRole[]> = {
  left: ["loss", "loss_scale"],
  right: ["grad_norm", "lr"],
};

export function axesOf({ layout, roles }: Pick<Scene, "layout" | "roles">, width: number): AxisPlace[] {
  if (layout !== "merged") return roles.map((role) => ({ role, side: "left", left: 0, width: LEFT[layout] }));
  return (["left", "right"] as const).flatMap((side) => {
    const here = SIDES[side].filter((role) => roles.includes(role));
    const widths = here.map((_, i) => (i === 0 ? INNER : OUTER));
    const all = widths.reduce((a, b) => a + b, 0);
    let used = 0;
    return here.map((role, i) => {
      const own = widths[i]!;
      const left = side === "left" ? all - used - own : width - all + used;
      used += own;
      return { role, side, left, width: own };
    });
  });
}

export interface Margins {
  readonly left: number;
  readonly right: number;
  readonly padLeft: number;
  readonly padRight: number;
}

export function marginsOf(scene: Pick<Scene, "layout" | "roles">): Margins {
  const { layout } = scene;
  if (layout !== "merged") return { left: LEFT[layout], right: 0, padLeft: 0, padRight: RIGHT[layout] };
  const axes = axesOf(scene, 0);
  const sum = (side: string) => axes.filter((a) => a.side === side).reduce((n, a) => n + a.width, 0);
  const [left, right] = [sum("left"), sum("right")];
  return { left, right, padLeft: left ? 0 : RIGHT.merged, padRight: right ? 0 : RIGHT.merged };
}

const LABEL_CHAR = 6.4;

/** CSS px that the labels at the line ends want to the right of the data. */
export function labelRoom({ layout, runs }: Pick<Scene, "layout" | "runs">): number {
  if (layout === "panel") return 0;
  if (runs.length > 6) return 8;
  const longest = Math.max(...runs.map((r) => (runs.length > 1 ? r.label.length : 0)), 0);
  const name = runs.length > 1 ? longest + 3 : layout === "merged" ? 12 : 2;
  return Math.min(170, 22 + (name + 4) * LABEL_CHAR);
}
