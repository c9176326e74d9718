/**
 * Where each metric lives in the frame. Every role has its own y scale over the whole plot height,
 * stretched so that its data fill only its zone: one canvas, one x axis, no crossing lines.
 */
import { type ChartRole, isDerived, ROLE_STYLE } from "../roles";

export interface Band {
  /** CSS px from the top of the plot. */
  readonly top: number;
  readonly bottom: number;
}

/** Between lanes: a separator and the lane's title. */
export const LANE_GAP = 30;

export function laneBands(roles: readonly ChartRole[], height: number): Band[] {
  const free = Math.max(0, height - LANE_GAP * Math.max(0, roles.length - 1));
  const shares = sharesOf(roles);
  const total = shares.reduce((sum, share) => sum + share, 0);
  let top = 0;
  return readable(shares.map((share) => (free * share) / total)).map((size) => {
    const band = { top, bottom: top + size };
    top += size + LANE_GAP;
    return band;
  });
}

/** Two ticks and a curve need so much; below it a lane gets what the highest one can spare. */
const READABLE = 44;

function readable(sizes: readonly number[]): number[] {
  const lead = sizes.indexOf(Math.max(...sizes));
  const lacking = sizes.map((size, i) => (i === lead ? 0 : Math.max(0, READABLE - size)));
  const wanted = lacking.reduce((sum, lack) => sum + lack, 0);
  const spare = Math.max(0, (sizes[lead] ?? 0) - 2 * READABLE);
  const part = wanted > 0 ? Math.min(1, spare / wanted) : 0;
  return sizes.map((size, i) => size + part * (i === lead ? -wanted : lacking[i]!));
}

/** What is compared stands above what comes of it, whatever its share beside other metrics. */
const COMPARED = 42;

const sharesOf = (roles: readonly ChartRole[]): number[] =>
  roles.map((role) => (roles.some(isDerived) && !isDerived(role) ? COMPARED : ROLE_STYLE[role].share));

export function mergedBands(roles: readonly ChartRole[], height: number): Band[] {
  return roles.map((role) => {
    const [low, high] = roles.length === 1 ? [0.03, 0.97] : ROLE_STYLE[role].merged;
    return { top: height * (1 - high), bottom: height * (1 - low) };
  });
}

/** The scale over the whole height with which [lo, hi] fills exactly the band. */
export function stretchedRange(lo: number, hi: number, band: Band, height: number): [number, number] {
  const z0 = 1 - band.bottom / height;
  const z1 = 1 - band.top / height;
  const span = (hi - lo) / Math.max(1e-9, z1 - z0);
  const min = lo - z0 * span;
  return [min, min + span];
}
