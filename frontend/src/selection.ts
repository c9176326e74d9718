/** Which runs are listed, chosen and drawn. */
import type { RunInfo } from "./api";
import { type ChartRole, OVERLAY_ROLES, type OverlayRole, ROLES } from "./roles";

/** More curves than this say nothing; the rest is drawn only when asked for. */
export const MOST_DRAWN = 50;

export const overlayRolesOf = (run: RunInfo): OverlayRole[] =>
  OVERLAY_ROLES.filter((role) => role in run.roles);

/**
 * Order of the list: newest first as it was at the first look. Later answers only put new runs on
 * top, so rows do not change places under the pointer while runs are being written.
 */
export function listOrder(runs: readonly RunInfo[], before: readonly string[]): string[] {
  const known = new Set(runs.map((r) => r.run));
  const kept = before.filter((name) => known.has(name));
  const old = new Set(kept);
  const added = runs
    .filter((r) => !old.has(r.run))
    .sort((a, b) => b.last_wall_time - a.last_wall_time || (a.run < b.run ? -1 : 1))
    .map((r) => r.run);
  return [...added, ...kept];
}

/**
 * The first picture: of the runs being trained now, else of all, one that shows the most metrics, the
 * newest of those. So the tab opens on as full an overlay as there is.
 */
export function defaultChoice(runs: readonly RunInfo[]): string[] {
  const curves = runs.filter((r) => r.roles.loss !== undefined && r.roles.loss.points !== 1);
  const drawable = curves.length ? curves : runs.filter((r) => overlayRolesOf(r).length > 0);
  const known = drawable.length ? drawable : runs;
  const live = known.filter((r) => r.status === "running");
  const best = (live.length ? [...live] : [...known]).sort(
    (a, b) => overlayRolesOf(b).length - overlayRolesOf(a).length || b.last_wall_time - a.last_wall_time,
  )[0];
  return best ? [best.run] : [];
}

export interface Filter {
  readonly visible: readonly string[];
  /** Why the pattern is no regular expression; the list then shows everything. */
  readonly problem: string | null;
}

export function filterRuns(order: readonly string[], pattern: string): Filter {
  if (pattern.trim() === "") return { visible: order, problem: null };
  let regex: RegExp;
  try {
    regex = new RegExp(pattern, "i");
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^.*\/[a-z]*: /, "") : "";
    return { visible: order, problem: reason };
  }
  return { visible: order.filter((name) => regex.test(name)), problem: null };
}

export interface Drawn {
  readonly runs: readonly RunInfo[];
  /** Chosen, but past the limit. */
  readonly left: number;
  /** Chosen, but with nothing that is drawn here. */
  readonly without: readonly string[];
}

const SEVERITY = { ok: 0, info: 1, warning: 2, critical: 3 } as const;

export function drawnRuns(
  runs: ReadonlyMap<string, RunInfo>,
  chosen: readonly string[],
  drawAll: boolean,
  roles: readonly ChartRole[] = OVERLAY_ROLES,
  /** Drawn whatever the others are: what they are compared with. */
  always: string | null = null,
): Drawn {
  const there = chosen.flatMap((name) => runs.get(name) ?? []);
  const has = (run: RunInfo) => roles.some((role) => role in run.roles);
  const all = there.filter(has);
  const without = there.filter((run) => !has(run)).map((run) => run.run);
  if (all.length <= MOST_DRAWN || drawAll) return { runs: all, left: 0, without };
  const first = [...all].sort(
    (a, b) =>
      Number(b.run === always) - Number(a.run === always) ||
      SEVERITY[b.verdict ?? "ok"] - SEVERITY[a.verdict ?? "ok"] ||
      b.last_wall_time - a.last_wall_time,
  );
  const kept = new Set(first.slice(0, MOST_DRAWN));
  return { runs: all.filter((run) => kept.has(run)), left: all.length - MOST_DRAWN, without };
}

/** A run that calls itself running may have been killed: it is live while events come. */
const LIVE_S = 120;

export const isLive = (runs: readonly RunInfo[], now: number): boolean =>
  runs.some((r) => r.status === "running" && now - r.last_wall_time < LIVE_S);

/**
 * All ranks of a folded training, as runs that can be chosen. Only names of the others are listed: what
 * they logged is taken to be what the shown one did until their curves come.
 */
export function withRanks(runs: readonly RunInfo[]): Map<string, RunInfo> {
  const all = new Map<string, RunInfo>();
  for (const run of runs) {
    for (const rank of run.ranks) {
      const roles = Object.entries(run.roles).map(([role, info]) => [
        role,
        { ...info, points: null, last_value: null },
      ]);
      const unread = {
        verdict: null,
        findings: null,
        notes: [],
        notes_of_findings: 0,
        missing: [],
        ranks: [],
      };
      if (rank !== run.run) all.set(rank, { ...run, ...unread, run: rank, roles: Object.fromEntries(roles) });
    }
  }
  for (const run of runs) all.set(run.run, run);
  return all;
}

/** The chosen runs once all between two rows (both included) were switched on or off. */
export function chooseRange(
  chosen: readonly string[],
  rows: readonly string[],
  from: string,
  to: string,
  on: boolean,
): string[] {
  const ends = [rows.indexOf(from), rows.indexOf(to)];
  const range = ends.includes(-1) ? [to] : rows.slice(Math.min(...ends), Math.max(...ends) + 1);
  const touched = new Set(range);
  const others = chosen.filter((run) => !touched.has(run));
  return on ? [...chosen, ...range.filter((run) => !chosen.includes(run))] : others;
}

/** Seconds until the last of a run's steps, where it says how many there are and how fast it is. */
export function secondsLeft(run: RunInfo): number | null {
  const { total_steps, seconds_per_step, status } = run;
  const last = lastStep(run);
  if (status !== "running" || total_steps === null || seconds_per_step === null || last === null) return null;
  return last < total_steps ? (total_steps - last) * seconds_per_step : null;
}

/** Where a run begins: its loss does, where it has one. The server counts from the same step. */
export function firstStep(run: Pick<RunInfo, "roles">): number {
  const leading = ROLES.find((role) => role in run.roles);
  return (leading && run.roles[leading]?.first_step) ?? 0;
}

export function lastStep(run: RunInfo): number | null {
  const steps = Object.values(run.roles).map((r) => r.last_step);
  return run.roles.loss?.last_step ?? (steps.length ? Math.max(...steps) : null);
}
