/** What happened on the curves, worth a pill above them: findings, restarts, values that are not finite, alerts. */
import type { Finding, RunInfo, Severity } from "../api";
import type { NonFinite, Segment } from "../decode";
import { formatPosition } from "../format";
import { type ChartRole, isChartRole, isCount, isTime, type Role, type XAxis } from "../roles";
import { firstStep } from "../selection";
import { text } from "../text";
import { partedMarks } from "./compare";
import type { Scene } from "./scene";
import { lowerBound, type Window } from "./window";

/** Its shape: ✕ left for good, ◆ left the baseline, ▲ jumped, NaN, ⟲ taken up again, ■ anything else that was found or done. */
export type MarkKind = "diverged" | "parted" | "spike" | "nonfinite" | "restart" | "alert";

export interface Mark {
  readonly kind: MarkKind;
  readonly severity: Severity;
  readonly run: string;
  /** The metric it shows in; null where it is about the whole run. */
  readonly role: ChartRole | null;
  readonly x: number;
  /** On the pill of a stretch without finite values: which kind. */
  readonly label: "" | "NaN" | "Inf";
  readonly title: string;
  /** The stretch the mark is about. */
  readonly span: Window;
  readonly finding: Finding | null;
}

/** The rules whose findings have a shape of their own. */
const SHAPES: Readonly<Record<string, MarkKind>> = {
  loss_divergence: "diverged",
  loss_rising: "diverged",
  overfitting: "diverged",
  kl_blowup: "diverged",
  reward_collapse: "diverged",
  loss_scale_collapse: "diverged",
  baseline_divergence: "parted",
  loss_spike: "spike",
  grad_explosion: "spike",
  non_finite: "nonfinite",
  resume_discontinuity: "restart",
};

export type MarkedScene = Pick<Scene, "segments" | "x" | "loaded" | "findings" | "comparing"> & {
  readonly runs: readonly {
    readonly run: string;
    readonly info: Pick<RunInfo, "restarts" | "events" | "roles">;
  }[];
};

/** Of a scene; where it shows a window, the ends of its segments say nothing about the run. */
export function findMarks(scene: MarkedScene): Mark[] {
  const { segments, x: axis, loaded } = scene;
  if (scene.comparing) return partedMarks(scene.comparing);
  const byRun = new Map<string, Segment[]>();
  for (const s of segments) {
    if (s.n === 0) continue;
    const own = byRun.get(s.run);
    if (own) own.push(s);
    else byRun.set(s.run, [s]);
  }
  const marks: Mark[] = [];
  for (const [run, own] of byRun) {
    const info = scene.runs.find((r) => r.run === run)?.info;
    // Restarts and events are told in steps; on another axis their place is not known here.
    const origin = originOf(axis, info);
    const told = scene.findings.get(run) ?? [];
    const found = told.flatMap((finding) => ofFinding(finding, own, axis) ?? []);
    const said = new Set(found.filter((m) => m.kind === "nonfinite").map((m) => m.role));
    marks.push(
      ...found,
      ...restartMarks(run, own, axis, origin === null ? [] : placed(info?.restarts ?? [], origin), loaded),
      ...nonFinite(run, own, axis).filter((m) => !said.has(m.role)),
      ...(origin === null ? [] : eventMarks(run, info?.events ?? [], axis, origin)),
    );
  }
  return marks.sort((a, b) => a.x - b.x);
}

/** Where first, last and peak of a finding lie on an axis. */
export const placesOf = (f: Finding, axis: XAxis): readonly [number, number, number] | null =>
  axis === "step" ? [f.first_step, f.last_step, f.peak_step] : (f.at?.[axis] ?? null);

function ofFinding(finding: Finding, segments: readonly Segment[], axis: XAxis): Mark | null {
  const { rule, severity, run, role, message } = finding;
  const places = placesOf(finding, axis);
  if (!places) return null;
  const [first, last, peak] = places;
  const kind = SHAPES[rule] ?? "alert";
  // What jumped is at its peak, everything else where it began.
  const x = kind === "spike" ? peak : first;
  return {
    kind,
    severity,
    run,
    role: chartRole(role),
    x,
    label: kind === "nonfinite" ? kindOf(segments.filter((s) => s.role === role)) : "",
    title: text.missing.run(run, message),
    span: { from: first, to: last },
    finding,
  };
}

/** Which values were not finite; NaN where both kinds were. */
function kindOf(segments: readonly Pick<Segment, "nonfinite">[]): "NaN" | "Inf" {
  const any = (column: "nan" | "posinf" | "neginf") =>
    segments.some((s) => s.nonfinite?.[column].some((n) => n > 0));
  return !any("nan") && (any("posinf") || any("neginf")) ? "Inf" : "NaN";
}

const chartRole = (role: Role): ChartRole | null => (isChartRole(role) ? role : null);

/** The step at which an axis of steps has its zero; null for any other axis. */
function originOf(axis: XAxis, info: Pick<RunInfo, "roles"> | undefined): number | null {
  if (axis === "step") return 0;
  return axis === "from_start" && info ? firstStep(info) : null;
}

const placed = (steps: readonly number[], origin: number): number[] => steps.map((step) => step - origin);

const eventMarks = (run: string, events: RunInfo["events"], axis: XAxis, origin: number): Mark[] =>
  events.map(({ kind, step, severity, message }) => ({
    kind: "alert",
    severity,
    run,
    role: null,
    x: step - origin,
    label: "",
    title: text.marks[kind](run, position(step - origin, axis), message),
    span: { from: step - origin, to: step - origin },
    finding: null,
  }));

/**
 * A restart is where a superseded branch leaves the curve; in time, where the curve goes on after it.
 * One that superseded nothing is known only by its step.
 */
function restartMarks(
  run: string,
  segments: readonly Segment[],
  axis: XAxis,
  steps: readonly number[],
  loaded: Window | null,
): Mark[] {
  const inTime = isTime(axis);
  const marks: Mark[] = [];
  const near = (x: number, reach: number) => marks.some((m) => Math.abs(m.x - x) <= reach);
  for (const branch of segments) {
    if (branch.current) continue;
    const begin = branch.x[0]!;
    const end = branch.x[branch.n - 1]!;
    const later = inTime ? goesOn(segments, branch, end) : undefined;
    // A window may begin amid the branch, or end before the curve goes on.
    if (loaded && (inTime ? later === undefined : !leaves(segments, branch, begin))) continue;
    const at = inTime ? (later ?? end) : begin;
    // Every role has its branch of the same restart, not always from the very same step on.
    if (near(at, Math.abs(end - begin) / 2 + 1e-9)) continue;
    marks.push({
      ...RESTART,
      run,
      x: at,
      title: text.marks.restart(
        run,
        position(at, axis),
        loaded ? "" : text.marks.superseded(formatPosition(begin, axis), formatPosition(end, axis)),
      ),
      span: { from: Math.min(begin, at), to: Math.max(end, at) },
    });
  }
  for (const step of steps) {
    if (loaded && (step < loaded.from || step > loaded.to)) continue;
    if (marks.some((m) => m.span.from - 1 <= step && step <= m.span.to + 1)) continue;
    const title = text.marks.restart(run, position(step, axis), "");
    marks.push({ ...RESTART, run, x: step, title, span: { from: step, to: step } });
  }
  return marks;
}

const RESTART = { kind: "restart", severity: "info", role: null, label: "", finding: null } as const;

/** Something current comes before the branch: so this is where it begins, not only where the window does. */
const leaves = (segments: readonly Segment[], branch: Segment, begin: number): boolean =>
  segments.some((s) => s.current && s.role === branch.role && s.x[0]! < begin);

function goesOn(segments: readonly Segment[], branch: Segment, after: number): number | undefined {
  for (const s of segments) {
    if (!s.current || s.role !== branch.role) continue;
    const i = lowerBound(s.x, after);
    if (i < s.n) return s.x[i]!;
  }
  return undefined;
}

/** Of the loss alone: a grad norm that overflows now and then is what a loss scaler is for. */
function nonFinite(run: string, segments: readonly Segment[], axis: XAxis): Mark[] {
  const marks: Mark[] = [];
  for (const s of segments) {
    if (!s.current || s.role !== "loss" || !s.nonfinite) continue;
    const { idx, nan, posinf, neginf } = s.nonfinite;
    for (const [begin, end] of stretches(s, idx)) {
      const own: NonFinite = {
        idx: idx.subarray(begin, end),
        nan: nan.subarray(begin, end),
        posinf: posinf.subarray(begin, end),
        neginf: neginf.subarray(begin, end),
      };
      const span = { from: s.x[idx[begin]!]!, to: s.x[idx[end - 1]!]! };
      marks.push({
        kind: "nonfinite",
        severity: "critical",
        finding: null,
        run,
        role: "loss",
        x: span.from,
        label: kindOf([{ nonfinite: own }]),
        title: text.marks.nonFinite(
          run,
          text.role(s.role),
          describeNonFinite([{ nonfinite: own }]),
          position(span.from, axis),
          position(span.to, axis),
        ),
        span,
      });
    }
  }
  return marks;
}

/** Farther apart than this share of what is shown, two points that are not finite are two events. */
const APART = 0.05;

/** Ranges of `idx` that belong together. */
function stretches(s: Segment, idx: Uint32Array): [number, number][] {
  const apart = APART * (s.x[s.n - 1]! - s.x[0]!);
  const found: [number, number][] = [];
  idx.forEach((i, k) => {
    const before = k > 0 ? idx[k - 1]! : i;
    const together = k > 0 && (i - before === 1 || s.x[i]! - s.x[before]! <= apart);
    if (together) found[found.length - 1]![1] = k + 1;
    else found.push([k, k + 1]);
  });
  return found;
}

/** "NaN at 13 logged points", "+Inf at 1 logged point" */
export function describeNonFinite(segments: readonly Pick<Segment, "nonfinite">[]): string {
  const sum = (column: "nan" | "posinf" | "neginf") =>
    segments.reduce((n, s) => n + (s.nonfinite ? s.nonfinite[column].reduce((a, b) => a + b, 0) : 0), 0);
  const parts = (
    [
      ["NaN", sum("nan")],
      ["+Inf", sum("posinf")],
      ["−Inf", sum("neginf")],
    ] as const
  ).filter(([, n]) => n > 0);
  return text.list(parts.map(([kind, n]) => text.marks.points(n, kind)));
}

/** So many points are context enough on either side of an event. */
const CONTEXT = 20;

/** Where a click on marks leads: to what they are about with as much on either side, half of what is shown at most. */
export function windowAround(marks: readonly Mark[], segments: readonly Segment[], axis: XAxis): Window {
  const runs = new Set(marks.map((m) => m.run));
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let points = 2;
  for (const s of segments) {
    if (s.n === 0 || !runs.has(s.run)) continue;
    first = Math.min(first, s.x[0]!);
    last = Math.max(last, s.x[s.n - 1]!);
    points = Math.max(points, s.n);
  }
  const extent = Math.max(0, last - first);
  const begin = Math.min(...marks.map((m) => m.span.from));
  const end = Math.max(...marks.map((m) => m.span.to));
  const margin = Math.max(end - begin, (CONTEXT * extent) / (points - 1));
  const whole = isCount(axis);
  let [from, to] = [begin - margin, end + margin];
  if (to - from > extent / 2) {
    // How it began tells more than how it went on.
    const at = Math.min(...marks.map((m) => m.x));
    [from, to] = [at - 0.3 * extent, at + 0.2 * extent];
  }
  if (axis !== "wall") from = Math.max(0, from);
  if (!(to > from)) to = from + 1;
  return whole ? { from: Math.floor(from), to: Math.max(Math.floor(from) + 1, Math.ceil(to)) } : { from, to };
}

const position = (x: number, axis: XAxis): string =>
  isTime(axis) ? formatPosition(x, axis) : `${text.x.caption[axis]} ${formatPosition(x, axis)}`;
