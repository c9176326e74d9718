/**
 * Runs laid against a baseline, as a chart needs it: three zones, the compared role above the difference and the
 * relative error, which are drawn as series of roles of their own.
 */
import type { ComparedCurve, Comparison } from "../api";
import type { Segment } from "../decode";
import { formatPosition, formatShare, signed } from "../format";
import { type ChartRole, DERIVED_ROLES, type DerivedRole, type LoggedRole, type XAxis } from "../roles";
import { text } from "../text";
import type { Extent } from "./extent";
import type { Mark } from "./marks";
import type { Tick } from "./ticks";

/** Where a run leaves the baseline. */
export interface Parted {
  readonly run: string;
  readonly x: number;
}

/** A value is within it where its difference is at most absolute + tolerance x the baseline's size. */
export interface Tolerance {
  readonly tolerance: number;
  readonly absolute: number;
}

export interface Comparing extends Tolerance {
  readonly baseline: string;
  readonly role: LoggedRole;
  readonly axis: XAxis;
  /** The tolerance as a part of what the baseline's values usually are. */
  readonly limit: number;
  readonly parted: readonly Parted[];
}

/** Below a tenth of the tolerance a relative error on a logarithmic axis is all zero crossings. */
const FLOOR = 1 / 10;
/** For a tolerance of nothing: about what a float32 can tell apart. */
const LEAST = 1e-7;

export const errorFloor = (limit: number): number => Math.max(limit * FLOOR, LEAST);

/** The largest relative error within the tolerance, at a value of the baseline. */
export const limitAt = ({ tolerance, absolute }: Tolerance, baseline: number): number =>
  absolute > 0 ? tolerance + absolute / Math.abs(baseline) : tolerance;

/** The same at the median of a baseline's curve. */
export function usualLimit(
  allowed: Tolerance,
  segments: readonly Segment[],
  baseline: string,
  role: LoggedRole,
): number {
  if (allowed.absolute === 0) return allowed.tolerance;
  const own = segments.filter((s) => s.run === baseline && s.role === role && s.current);
  const sizes = own.flatMap((s) => [...s.last].map(Math.abs)).filter((v) => v > 0 && Number.isFinite(v));
  sizes.sort((a, b) => a - b);
  const usual = sizes[(sizes.length - 1) >> 1];
  return usual === undefined ? allowed.tolerance : limitAt(allowed, usual);
}

interface Input {
  readonly comparing?: Comparing | undefined;
  readonly segments: readonly Segment[];
  readonly ranges: Readonly<Partial<Record<ChartRole, unknown>>>;
}

export const floorOf = (role: ChartRole, { comparing }: Input): number | null =>
  comparing && role === "relative_error" ? errorFloor(comparing.limit) : null;

/** The extent with what the values are read against in it: zero, the floor and the tolerance. */
export function referenced(extent: Extent, role: ChartRole, { comparing, segments, ranges }: Input): Extent {
  if (!comparing || ranges[role] !== undefined) return extent;
  const { range } = extent;
  if (role === "difference" && range) return { ...extent, range: withZero(range) };
  if (role !== "relative_error") return extent;
  // Two runs that are the same have no error that a logarithm could show; they have their place on the floor.
  const known = segments.some((s) => s.role === role && s.last.some((v) => v === v));
  if (!known) return extent;
  const low = Math.log10(errorFloor(comparing.limit));
  const limit = comparing.limit > 0 ? Math.log10(comparing.limit) + ABOVE : low + 1;
  return { ...extent, range: [low, Math.max(limit, range?.[1] ?? limit)] };
}

/** Decades that are shown above the tolerance though nothing is there. */
const ABOVE = 0.35;
/** Room on either side, as a part of the range. */
const MARGIN = 0.06;

function withZero([lo, hi]: readonly [number, number]): [number, number] {
  const [low, high] = [Math.min(lo, 0), Math.max(hi, 0)];
  const margin = (high - low) * MARGIN;
  return [low - margin, high + margin];
}

/** Differences have a sign, relative errors are parts. */
export function relabelled(role: ChartRole, ticks: readonly Tick[]): readonly Tick[] {
  if (role === "difference") {
    return ticks.map(({ at, label }) => ({
      at,
      label: at === 0 ? "0" : signed(at, label.replace(/^[-−]/, "")),
    }));
  }
  if (role === "relative_error") return ticks.map(({ at }) => ({ at, label: shareLabel(10 ** at) }));
  return ticks;
}

/** Without the last digits of a power of ten that was made of its logarithm. */
const shareLabel = (part: number): string => formatShare(Number(part.toPrecision(6)));

export const partedMarks = ({ parted, axis }: Comparing): Mark[] =>
  [...parted]
    .sort((a, b) => a.x - b.x)
    .map(({ run, x }) => ({
      kind: "parted",
      severity: "critical",
      run,
      role: null,
      x,
      label: "",
      title: text.compare.leaves(run, formatPosition(x, axis)),
      span: { from: x, to: x },
      finding: null,
    }));

/** The curves of a comparison as series that a chart draws. */
export const derivedSegments = (run: string, comparison: Comparison): Segment[] =>
  DERIVED_ROLES.map((role) => segmentOf(run, role, comparison[role]));

function segmentOf(run: string, role: DerivedRole, curve: ComparedCurve): Segment {
  const column = (values: readonly (number | null)[]) => Float32Array.from(values, (v) => v ?? Number.NaN);
  return {
    run,
    role,
    tag: "",
    unit: "",
    current: true,
    raw: curve.raw,
    n: curve.x.length,
    ymin: null,
    ymax: null,
    p1: null,
    p99: null,
    x: Float64Array.from(curve.x),
    min: column(curve.min),
    max: column(curve.max),
    last: column(curve.last),
    smoothed: curve.smoothed && column(curve.smoothed),
    nonfinite: null,
  };
}

/** "1 %", "0.002", "(1 % + 0.002)": what may lie on either side. */
export function toleranceText({ tolerance, absolute }: Tolerance): string {
  const parts = [tolerance > 0 && formatShare(tolerance), absolute > 0 && String(absolute)];
  const said = parts.filter(Boolean);
  return said.length > 1 ? `(${said.join(" + ")})` : String(said[0] ?? 0);
}

/** The tolerance in per cent, as a field has it. */
export const percentText = (tolerance: number): string => String(Number((tolerance * 100).toPrecision(6)));
