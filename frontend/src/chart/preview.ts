/**
 * The last picture, moved and stretched to another window: what is shown while a hand moves it. That costs one
 * drawImage a frame however many curves there are; the picture is drawn anew when the hand rests.
 */
import { FONT_FAMILY, type Painting } from "./canvas";
import { BOTTOM } from "./frame";
import { xTicks } from "./ticks";
import type { Window } from "./window";
import { xScale } from "./xscale";

export function drawMoved(
  ctx: CanvasRenderingContext2D,
  picture: HTMLCanvasElement,
  p: Painting,
  window: Window,
): void {
  const { x } = p.plan;
  const from = x.fraction(window.from);
  const to = x.fraction(window.to);
  if (!(to > from)) return;
  const above = Math.min(p.top, 8 * p.ratio); // rings at the upper edge reach over it
  const below = BOTTOM[p.plan.layout] * p.ratio;
  ctx.fillStyle = p.tokens.surface;
  ctx.fillRect(p.left, p.top - above, p.width, p.height + above);
  ctx.fillRect(p.left - 30 * p.ratio, p.top + p.height + 1, p.width + 60 * p.ratio, below);
  ctx.save();
  ctx.beginPath();
  ctx.rect(p.left, p.top - above, p.width, p.height + above);
  ctx.clip();
  const stretch = 1 / (to - from);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(
    picture,
    p.left,
    p.top - above,
    p.width,
    p.height + above,
    p.left - from * stretch * p.width,
    p.top - above,
    p.width * stretch,
    p.height + above,
  );
  ctx.restore();

  const moved = xScale(x.axis, x.log, window);
  const [t0, t1] = moved.ends;
  if (!Number.isFinite(t0)) return;
  ctx.font = `${11 * p.ratio}px ${FONT_FAMILY}`;
  ctx.fillStyle = p.tokens.text3;
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  const gap = (p.plan.layout === "panel" ? 6 : 8) * p.ratio;
  for (const tick of xTicks(moved, Math.max(2, p.plan.xTicks.length))) {
    const at = p.left + ((tick.at - t0) / (t1 - t0)) * p.width;
    ctx.fillText(tick.label, at, p.top + p.height + gap);
  }
}
