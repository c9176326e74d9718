/** Short ticks for what has no height: values that are not finite, and overflows of the loss scale. */
import { type Painting, roleColour } from "./canvas";
import { paintRug } from "./paint";
import {
  NAN_RUG,
  nonFiniteRoles,
  nonFiniteRow,
  OVERFLOW_ROWS,
  OVERFLOW_RUG,
  overflowRow,
  type Zone,
} from "./plan";

export function drawNonFinite(p: Painting, zone: Zone): void {
  const row = nonFiniteRoles(p.scene).indexOf(zone.role);
  if (row < 0) return;
  const lanes = p.plan.layout !== "merged";
  const height = lanes ? zone.band.bottom : p.height / p.ratio - nonFiniteRow(row);
  const aboveOverflows = lanes && zone.role === "loss_scale" ? overflowRow(OVERFLOW_ROWS) : 0;
  const bottom = p.top + (height - 1 - aboveOverflows) * p.ratio;
  const groups = new Map<string, number[]>();
  for (const s of p.index.role(zone.role)) {
    if (!s.nonfinite) continue;
    const colour = colourOf(p, zone, s.run);
    const xs = groups.get(colour) ?? [];
    groups.set(colour, xs);
    for (const i of s.nonfinite.idx) xs.push(p.px(s.x[i]!));
  }
  for (const [colour, xs] of groups) {
    paintRug(p.ctx, xs, bottom, NAN_RUG * p.ratio, { colour, width: 1.25 * p.ratio, alpha: 1 });
  }
}

/** In one frame only the loss is in the colour of what is serious: which metric it was must be seen. */
function colourOf(p: Painting, zone: Zone, run: string): string {
  if (p.plan.layout !== "merged" || zone.role === "loss") return p.tokens.critical;
  if (p.coloursAreRoles) return roleColour(p.tokens, zone.role);
  return p.scene.runs.find((r) => r.run === run)?.colour ?? p.tokens.critical;
}

export function drawOverflow(p: Painting): void {
  const zone = p.plan.zones.find((z) => z.role === "loss_scale");
  if (!zone) return;
  const some = p.index.overflowRuns;
  const runs = p.scene.runs.filter((r) => some.includes(r.run));
  // A row for each of a few runs; with more of them one row says only that some run overflowed there.
  const rows = runs.length <= OVERFLOW_ROWS;
  const above = nonFiniteRow(nonFiniteRoles(p.scene).length);
  const bottom = p.plan.layout !== "merged" ? zone.band.bottom : p.height / p.ratio - above;
  runs.forEach((run, row) => {
    const xs: number[] = [];
    for (const s of p.segments("overflow", run.run)) {
      for (let i = 0; i < s.n; i++) if (s.max[i]! > 0) xs.push(p.px(s.x[i]!));
    }
    const y = p.top + (bottom - 1 - (rows ? overflowRow(row) : 0)) * p.ratio;
    const own = p.coloursAreRoles ? p.tokens.loss_scale : run.colour;
    paintRug(p.ctx, xs, y, OVERFLOW_RUG * p.ratio, {
      colour: rows ? own : p.tokens.text2,
      width: 1.25 * p.ratio,
      alpha: rows ? 1 : 0.5,
    });
  });
}
