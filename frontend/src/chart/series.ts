/** The segments of an answer by role and run, sorted once for all that ask. */
import type { Segment } from "../decode";
import { CHART_ROLES, type ChartRole, type Role } from "../roles";

const NONE: readonly Segment[] = [];

export class SeriesIndex {
  private readonly roles = new Map<string, Segment[]>();
  private readonly series = new Map<string, Segment[]>();
  private overflowed: readonly string[] | null = null;
  private broken: readonly ChartRole[] | null = null;

  constructor(segments: readonly Segment[]) {
    for (const s of segments) {
      push(this.roles, s.role, s);
      push(this.series, `${s.role}\n${s.run}`, s);
    }
  }

  role(role: Role): readonly Segment[] {
    return this.roles.get(role) ?? NONE;
  }

  of(role: Role, run: string): readonly Segment[] {
    return this.series.get(`${role}\n${run}`) ?? NONE;
  }

  /** Runs that overflowed somewhere. */
  get overflowRuns(): readonly string[] {
    this.overflowed ??= [
      ...new Set(
        this.role("overflow")
          .filter((s) => s.max.some((v) => v > 0))
          .map((s) => s.run),
      ),
    ];
    return this.overflowed;
  }

  /** Roles that somewhere were not finite. */
  get nonFiniteRoles(): readonly ChartRole[] {
    this.broken ??= CHART_ROLES.filter((role) => this.role(role).some((s) => s.nonfinite?.idx.length));
    return this.broken;
  }
}

function push(to: Map<string, Segment[]>, key: string, segment: Segment): void {
  const own = to.get(key);
  if (own) own.push(segment);
  else to.set(key, [segment]);
}

const known = new WeakMap<readonly Segment[], SeriesIndex>();

export function seriesIndex(segments: readonly Segment[]): SeriesIndex {
  let index = known.get(segments);
  if (!index) {
    index = new SeriesIndex(segments);
    known.set(segments, index);
  }
  return index;
}
