/** What of all runs the view shows, and what is to be asked of the server for it: read off the state. */
import type { SeriesQuery } from "./api";
import { presentRoles } from "./chart/plan";
import { againstBaseline, comparedRole } from "./compare";
import {
  COMPARE_AXES,
  canBeLog,
  type LoggedRole,
  QUERIED_ROLES,
  type Role,
  rolesOf,
  type XAxis,
} from "./roles";
import { type Drawn, defaultChoice, drawnRuns } from "./selection";
import type { SessionState } from "./session-state";

type Looked = Pick<SessionState, "answer" | "runs" | "view">;

/** Points in one answer; more curves get fewer each. */
const POINT_BUDGET = 400_000;
const FEWEST_BUCKETS = 200;
/** A small resize needs no new data. */
const PIXELS = 200;

/** The chosen runs that exist, in the order of choosing. */
export function chosenRuns({ view, runs, answer }: Looked): readonly string[] {
  if (view.runs === null) return answer ? defaultChoice(answer.runs) : [];
  return view.runs.filter((name) => runs.has(name));
}

export function drawnOf(state: Looked): Drawn {
  const { runs, view } = state;
  const chosen = chosenRuns(state);
  const always = view.chart === "compare" ? baselineOf(state) : null;
  return drawnRuns(runs, againstBaseline(chosen, always), view.drawAll, rolesOf(view.chart), always);
}

/** The pinned run, if it is there. */
export function baselineOf({ runs, view }: Looked): string | null {
  return view.baseline !== null && runs.has(view.baseline) ? view.baseline : null;
}

/** What is compared: the chosen metric, unless the baseline has no such curve. */
export function metricOf(state: Looked): LoggedRole {
  const baseline = baselineOf(state);
  const { metric } = state.view;
  return baseline === null ? metric : comparedRole(metric, state.runs.get(baseline)!);
}

/** The x axis in use: the chosen one, unless none of the drawn runs has it. */
export function axisOf(state: Looked): XAxis {
  const { x: wanted, chart } = state.view;
  if (chart === "compare" && !COMPARE_AXES.includes(wanted)) return "step";
  const { runs } = drawnOf(state);
  return runs.length === 0 || runs.some((r) => r.axes.includes(wanted)) ? wanted : "step";
}

/** The windows of the drawn curves, for a plot of so many pixels; null where nothing is drawn. */
export function queryOf(state: Looked, plotPixels: number): SeriesQuery | null {
  const runs = drawnOf(state).runs.map((r) => r.run);
  if (runs.length === 0) return null;
  const { view } = state;
  const x = axisOf(state);
  const roles = queriedRoles(state);
  const pixels = Math.ceil(plotPixels / PIXELS) * PIXELS;
  const fair = Math.floor(POINT_BUDGET / (runs.length * roles.length));
  return {
    runs,
    roles,
    x,
    from: view.from,
    to: view.to,
    buckets: Math.max(FEWEST_BUCKETS, Math.min(pixels, fair)),
    log_x: view.logX && canBeLog(x),
    smoothing: view.smoothing,
  };
}

/** The overlay also asks for what is missing, to say so. */
function queriedRoles(state: Looked): readonly Role[] {
  const { chart } = state.view;
  if (chart === "compare") return [metricOf(state)];
  return chart === "overlay"
    ? QUERIED_ROLES
    : [...presentRoles(drawnOf(state).runs, rolesOf(chart)), "overflow"];
}

/** Whether there is a zoom, a finding or a y range to let go of. */
export function isNarrowed({ view: { from, finding, ranges, yLock } }: Looked): boolean {
  return from !== null || finding !== null || (!yLock && Object.keys(ranges).length > 0);
}
