import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Plan, presentRoles } from "../chart/plan";
import type { Scene } from "../chart/scene";
import type { Window } from "../chart/window";
import type { Segment } from "../decode";
import { distinctParts, middleEllipsis } from "../names";
import { slotColour } from "../palette";
import { defaultChoice } from "../selection";
import type { Session, SessionState } from "../session";
import { useStore } from "../store";
import { text } from "../text";
import { applyTokens, type ThemeName } from "../theme";
import { Banner } from "./Banner";
import { Bar } from "./Bar";
import { ChartHead } from "./ChartHead";
import { DrawLimit } from "./DrawLimit";
import { NoMetrics, NothingChosen, OtherRoles } from "./EmptyState";
import { Findings } from "./Findings";
import { Guard } from "./Guard";
import { Notes } from "./Notes";
import { Overlay } from "./Overlay";
import { RunList } from "./RunList";

export function App({ session }: { session: Session }) {
  const state = useStore(session);
  const theme = state.view.theme === "auto" ? state.hostTheme : state.view.theme;
  useLayoutEffect(() => applyTokens(theme), [theme]);
  useLayoutEffect(() => {
    document.documentElement.lang = state.language === "zh" ? "zh-CN" : "en";
  }, [state.language]);
  useKeys(session);
  return (
    <div class="app" key={state.language}>
      <Bar session={session} state={state} theme={theme} />
      <RunList session={session} state={state} theme={theme} />
      <main class="main">
        <Banner session={session} state={state} />
        <DrawLimit session={session} />
        <Guard token={state.frame}>
          <Main session={session} state={state} theme={theme} />
        </Guard>
      </main>
    </div>
  );
}

function Main({ session, state, theme }: { session: Session; state: SessionState; theme: ThemeName }) {
  const { answer, runs } = state;
  if (!answer) return state.problem ? null : <p class="waiting">{text.chart.loading}</p>;
  if (answer.runs.length === 0) return <NoMetrics searched={answer.searched} />;
  const chosen = session.chosen;
  if (chosen.length === 0) {
    return <NothingChosen onNewest={() => session.setView({ runs: defaultChoice(answer.runs) })} />;
  }
  if (session.drawn.runs.length === 0) {
    return <OtherRoles runs={chosen.flatMap((name) => runs.get(name) ?? [])} />;
  }
  return <ChartPanel session={session} state={state} theme={theme} />;
}

function ChartPanel({ session, state, theme }: { session: Session; state: SessionState; theme: ThemeName }) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const { frame, problem } = state;
  const pending = state.loading || frame === null || frame.key !== JSON.stringify(session.query);
  const scene = useScene(session, state, theme, pending);
  const status = !pending ? "ready" : problem && !state.loading ? "error" : "loading";
  const notes = <Notes scene={scene} plan={plan} missing={frame?.missing ?? []} />;
  return (
    <>
      <section class="chart">
        <ChartHead session={session} scene={scene} />
        {state.loading && <div class="loading-line" />}
        <Overlay session={session} scene={scene} status={status} onPlan={setPlan} />
      </section>
      <Findings session={session} state={state} theme={theme} notes={notes} />
    </>
  );
}

function useScene(session: Session, state: SessionState, theme: ThemeName, pending: boolean): Scene {
  const { view, frame, slots, runs: known, hovered, selectedFinding, drawAll } = state;
  const before = useRef<Scene | null>(null);
  return useMemo(() => {
    const scene = makeScene(session, theme, pending);
    // Where nothing of the new picture is here yet the old one stays: no blank frame in between.
    if (pending && scene.segments.length === 0 && before.current) return before.current;
    before.current = scene;
    return scene;
  }, [view, frame, slots, known, hovered, selectedFinding, drawAll, theme, pending]);
}

function makeScene(session: Session, theme: ThemeName, pending: boolean): Scene {
  const { view, frame, slots, hovered, selectedFinding } = session.state;
  const lit = hovered ?? selectedFinding?.run ?? null;
  const drawn = session.drawn.runs;
  const parts = distinctParts(drawn.map((r) => r.run));
  const shown = new Set(drawn.map((r) => r.run));
  const totals = drawn.flatMap((r) => r.total_steps ?? []);
  const { from, to } = view;
  // Segments of another x axis have nothing to say on this one.
  const here = frame !== null && frame.query.x === session.x ? frame : null;
  return {
    segments: here ? only(here.segments, shown) : [],
    runs: drawn.map((info) => ({
      info,
      run: info.run,
      label: middleEllipsis(parts.get(info.run) ?? info.run, 22),
      colour: slotColour(slots.get(info.run) ?? 0, theme),
    })),
    roles: presentRoles(drawn),
    mode: drawn.length === 1 ? view.one : view.many,
    x: session.x,
    zoom: windowOf(from, to),
    loaded: here && windowOf(here.query.from, here.query.to),
    y: view.y,
    smoothing: view.smoothing,
    totalSteps: totals.length ? Math.max(...totals) : null,
    pending,
    hovered: lit !== null && shown.has(lit) ? lit : null,
    theme,
  };
}

/** The same array where all of it is wanted: what hangs on it then need not be computed anew. */
const only = (segments: readonly Segment[], runs: ReadonlySet<string>): readonly Segment[] =>
  segments.every((s) => runs.has(s.run)) ? segments : segments.filter((s) => runs.has(s.run));

const windowOf = (from: number | null, to: number | null): Window | null =>
  from !== null && to !== null ? { from, to } : null;

function useKeys(session: Session): void {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const target = e.target as HTMLElement;
      const typing = target.matches("input[type=text], textarea, select");
      if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
        e.preventDefault();
        document.getElementById("filter")?.focus();
      } else if (e.key === "Escape" && (session.state.view.from ?? session.state.view.finding) !== null) {
        session.showAll();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [session]);
}
