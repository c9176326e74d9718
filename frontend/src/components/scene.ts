/** From the session's state to what a chart is to show. */
import { useMemo, useRef } from "preact/hooks";
import type { Finding } from "../api";
import { placesOf } from "../chart/marks";
import { presentRoles } from "../chart/plan";
import type { Layout, Scene } from "../chart/scene";
import type { Window } from "../chart/window";
import type { Segment } from "../decode";
import { distinctParts, middleEllipsis } from "../names";
import { slotColour } from "../palette";
import { canBeLog, rolesOf, type XAxis } from "../roles";
import type { Session, SessionState } from "../session";
import type { ThemeName } from "../theme";

export function useScene(session: Session, state: SessionState, theme: ThemeName, pending: boolean): Scene {
  const { view, frame, slots, runs: known, findings, selectedFinding } = state;
  const before = useRef<Scene | null>(null);
  // Not all of the view: what is typed into the filter must not draw the curves anew.
  const { runs, drawAll, baseline, chart, one, many, logX, from, to, y, scales, ranges } = view;
  const chosen = [runs, drawAll, baseline, chart, one, many, session.x, logX, from, to, y, scales, ranges];
  return useMemo(() => {
    const scene = makeScene(session, theme, pending);
    // Where nothing of the new picture is here yet the old one stays: no blank frame in between.
    if (pending && scene.segments.length === 0 && before.current) return before.current;
    before.current = scene;
    return scene;
  }, [...chosen, frame, slots, known, findings, selectedFinding, theme, pending]);
}

function makeScene(session: Session, theme: ThemeName, pending: boolean): Scene {
  const { view, frame, slots, findings, selectedFinding } = session.state;
  const drawn = session.drawn.runs;
  const parts = distinctParts(drawn.map((r) => r.run));
  const shown = new Set(drawn.map((r) => r.run));
  const totals = drawn.flatMap((r) => r.total_steps ?? []);
  const { from, to } = view;
  const { x } = session;
  // Segments of another x axis have nothing to say on this one.
  const here = frame !== null && frame.query.x === x ? frame : null;
  const layout: Layout = view.chart === "stacked" ? "panel" : drawn.length === 1 ? view.one : view.many;
  return {
    segments: here ? only(here.segments, shown) : [],
    runs: drawn.map((info) => ({
      info,
      run: info.run,
      label: middleEllipsis(parts.get(info.run) ?? info.run, 22),
      colour: slotColour(slots.get(info.run) ?? 0, theme),
    })),
    roles: view.chart === "compare" ? [session.metric] : presentRoles(drawn, rolesOf(view.chart)),
    layout,
    x,
    logX: view.logX && canBeLog(x),
    zoom: windowOf(from, to),
    loaded: here && windowOf(here.query.from, here.query.to),
    y: view.y,
    scales: view.scales,
    ranges: view.ranges,
    // What is drawn, not what is on its way.
    smoothing: here?.query.smoothing ?? view.smoothing,
    totalSteps: totals.length ? Math.max(...totals) : null,
    pending,
    findings,
    selected: selectedFinding && stretchOn(selectedFinding, x),
    theme,
  };
}

const filtered = new WeakMap<readonly Segment[], { shown: string; segments: readonly Segment[] }>();

/** The same array for the same runs: what hangs on it then need not be computed anew. */
function only(segments: readonly Segment[], runs: ReadonlySet<string>): readonly Segment[] {
  if (segments.every((s) => runs.has(s.run))) return segments;
  const shown = [...runs].join("\n");
  let known = filtered.get(segments);
  if (known?.shown !== shown) {
    known = { shown, segments: segments.filter((s) => runs.has(s.run)) };
    filtered.set(segments, known);
  }
  return known.segments;
}

function stretchOn(finding: Finding, x: XAxis): Window | null {
  const places = placesOf(finding, x);
  return places && { from: places[0], to: places[1] };
}

const windowOf = (from: number | null, to: number | null): Window | null =>
  from !== null && to !== null ? { from, to } : null;
