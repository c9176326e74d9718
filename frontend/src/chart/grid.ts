/** Under the curves: grid, separators of the lanes, the line the x axis stands on. */
import { crisp, type Painting } from "./canvas";
import { LANE_GAP } from "./zones";

export function drawGrid(p: Painting, panelWidth: number): void {
  const { ctx, plan, left, top, width, height, ratio } = p;
  const lanes = plan.layout !== "merged";
  const [t0, t1] = plan.x.ends;
  ctx.save();
  ctx.lineWidth = 1;
  ctx.strokeStyle = p.tokens.grid;
  ctx.beginPath();
  const stretches = lanes ? plan.zones.map((z) => z.band) : [{ top: 0, bottom: height / ratio }];
  for (const tick of plan.xTicks) {
    const x = crisp(left + ((tick.at - t0) / (t1 - t0)) * width);
    for (const s of stretches) {
      ctx.moveTo(x, top + s.top * ratio);
      ctx.lineTo(x, top + s.bottom * ratio);
    }
  }
  // Four grids in one frame would be a web: Merged has that of its first role, the loss where there is one.
  for (const zone of lanes ? plan.zones : plan.zones.slice(0, 1)) {
    const [min, max] = zone.range;
    for (const tick of zone.ticks) {
      const y = crisp(top + (1 - (tick.at - min) / (max - min)) * height);
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
    }
  }
  ctx.stroke();

  ctx.strokeStyle = p.tokens.line;
  ctx.beginPath();
  if (lanes) {
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
