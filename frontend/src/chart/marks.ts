/** Events worth a pill above the chart: restarts, and stretches without a finite value. */
import type { Segment } from "../decode";
import { formatPosition } from "../format";
import { isOverlayRole, type XAxis } from "../roles";
import { text } from "../text";
import type { Window } from "./extent";

export interface Mark {
  readonly kind: "restart" | "nonfinite";
  readonly run: string;
  readonly x: number;
  readonly title: string;
  /** The stretch the mark is about. */
  readonly span: Window;
}

export function findMarks(segments: readonly Segment[], axis: XAxis): Mark[] {
  const byRun = new Map<string, Segment[]>();
  for (const s of segments) {
    if (s.n === 0) continue;
    const own = byRun.get(s.run);
    if (own) own.push(s);
    else byRun.set(s.run, [s]);
  }
  const marks: Mark[] = [];
  for (const [run, own] of byRun) marks.push(...restarts(run, own, axis), ...nonFinite(run, own, axis));
  return marks.sort((a, b) => a.x - b.x);
}

/**
 * A restart is where a current segment begins that another one of its role precedes. Counted in
 * steps the superseded branch leaves the curve there; in time it lies before.
 */
function restarts(run: string, segments: readonly Segment[], axis: XAxis): Mark[] {
  const inTime = axis === "wall" || axis === "relative";
  const marks: Mark[] = [];
  for (const role of new Set(segments.map((s) => s.role))) {
    const own = segments.filter((s) => s.role === role);
    const old = own.filter((s) => !s.current);
    if (old.length === 0) continue;
    const current = own.filter((s) => s.current).sort((a, b) => a.x[0]! - b.x[0]!);
    for (const branch of old) {
      const begin = branch.x[0]!;
      const end = branch.x[branch.n - 1]!;
      const next = current.find((s) => (inTime ? s.x[0]! >= end : s.x[0]! >= begin));
      // All of the branch may be gone over by one segment that began before it.
      const at = inTime ? (next?.x[0] ?? end) : begin;
      const known = marks.some((m) => Math.abs(m.x - at) <= Math.abs(end - begin) * 0.5 + 1e-9);
      if (known) continue;
      const steps = text.marks.superseded(formatPosition(begin, axis), formatPosition(end, axis));
      marks.push({
        kind: "restart",
        run,
        x: at,
        title: text.marks.restart(run, position(at, axis), steps),
        span: { from: Math.min(begin, at), to: Math.max(end, at) },
      });
    }
  }
  return marks;
}

function nonFinite(run: string, segments: readonly Segment[], axis: XAxis): Mark[] {
  const stretches: { from: number; to: number; title: string }[] = [];
  for (const s of segments) {
    if (!s.current || !s.nonfinite || !isOverlayRole(s.role) || s.nonfinite.idx.length === 0) continue;
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
    { kind: "nonfinite", run, x: from, title: stretches.map((s) => s.title).join("\n"), span: { from, to } },
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
