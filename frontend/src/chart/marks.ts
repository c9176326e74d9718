/** Events worth a pill above the chart: restarts, and stretches without a finite value. */
import type { Segment } from "../decode";
import { formatPosition } from "../format";
import { isOverlayRole, type XAxis } from "../roles";
import { text } from "../text";
import { lowerBound, type Window } from "./window";

export interface Mark {
  readonly kind: "restart" | "nonfinite";
  readonly run: string;
  readonly x: number;
  /** On the pill of a stretch without finite values: which kind. */
  readonly label: "" | "NaN" | "Inf";
  readonly title: string;
  /** The stretch the mark is about. */
  readonly span: Window;
}

/** `restarts` are the steps at which each run was taken up again, as far as the server knows. */
export function findMarks(
  segments: readonly Segment[],
  axis: XAxis,
  restarts: ReadonlyMap<string, readonly number[]>,
): Mark[] {
  const byRun = new Map<string, Segment[]>();
  for (const s of segments) {
    if (s.n === 0) continue;
    const own = byRun.get(s.run);
    if (own) own.push(s);
    else byRun.set(s.run, [s]);
  }
  const marks: Mark[] = [];
  for (const [run, own] of byRun) {
    marks.push(...restartMarks(run, own, axis, restarts.get(run) ?? []), ...nonFinite(run, own, axis));
  }
  return marks.sort((a, b) => a.x - b.x);
}

/**
 * A restart is where a superseded branch leaves the curve; in time, where the curve goes on after it.
 * One that superseded nothing is known only by its step.
 */
function restartMarks(
  run: string,
  segments: readonly Segment[],
  axis: XAxis,
  steps: readonly number[],
): Mark[] {
  const inTime = axis === "wall" || axis === "relative";
  const marks: Mark[] = [];
  const near = (x: number, reach: number) => marks.some((m) => Math.abs(m.x - x) <= reach);
  for (const branch of segments) {
    if (branch.current) continue;
    const begin = branch.x[0]!;
    const end = branch.x[branch.n - 1]!;
    const at = inTime ? (goesOn(segments, branch, end) ?? end) : begin;
    // Every role has its branch of the same restart, not always from the very same step on.
    if (near(at, Math.abs(end - begin) / 2 + 1e-9)) continue;
    marks.push({
      kind: "restart",
      run,
      x: at,
      label: "",
      title: text.marks.restart(
        run,
        position(at, axis),
        text.marks.superseded(formatPosition(begin, axis), formatPosition(end, axis)),
      ),
      span: { from: Math.min(begin, at), to: Math.max(end, at) },
    });
  }
  if (axis !== "step") return marks;
  for (const step of steps) {
    if (marks.some((m) => m.span.from - 1 <= step && step <= m.span.to + 1)) continue;
    const title = text.marks.restart(run, position(step, axis), "");
    marks.push({ kind: "restart", run, x: step, label: "", title, span: { from: step, to: step } });
  }
  return marks;
}

function goesOn(segments: readonly Segment[], branch: Segment, after: number): number | undefined {
  for (const s of segments) {
    if (!s.current || s.role !== branch.role) continue;
    const i = lowerBound(s.x, after);
    if (i < s.n) return s.x[i]!;
  }
  return undefined;
}

function nonFinite(run: string, segments: readonly Segment[], axis: XAxis): Mark[] {
  const stretches: { from: number; to: number; title: string }[] = [];
  let label: Mark["label"] = "Inf";
  for (const s of segments) {
    if (!s.current || !s.nonfinite || !isOverlayRole(s.role) || s.nonfinite.idx.length === 0) continue;
    if (s.nonfinite.nan.some((n) => n > 0)) label = "NaN";
    const at = Array.from(s.nonfinite.idx, (i) => s.x[i]!);
    const from = at[0]!;
    const to = at[at.length - 1]!;
    const title = text.marks.nonFinite(
      run,
      text.role(s.role),
      describeNonFinite([s]),
      position(from, axis),
      position(to, axis),
    );
    stretches.push({ from, to, title });
  }
  if (stretches.length === 0) return [];
  const from = Math.min(...stretches.map((s) => s.from));
  const to = Math.max(...stretches.map((s) => s.to));
  return [
    {
      kind: "nonfinite",
      run,
      x: from,
      label,
      title: stretches.map((s) => s.title).join("\n"),
      span: { from, to },
    },
  ];
}

/** "NaN at 13 logged points", "+Inf at 1 logged point" */
export function describeNonFinite(segments: readonly Segment[]): string {
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

const position = (x: number, axis: XAxis): string =>
  axis === "wall" || axis === "relative"
    ? formatPosition(x, axis)
    : `${text.x.caption[axis]} ${formatPosition(x, axis)}`;
