import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Plan } from "../chart/plan";
import { defaultChoice } from "../selection";
import type { Session, SessionState } from "../session";
import { useStore } from "../store";
import { text } from "../text";
import { applyTokens, type ThemeName } from "../theme";
import { Banner } from "./Banner";
import { Bar } from "./Bar";
import { ChartHead } from "./ChartHead";
import { Compare } from "./Compare";
import { DrawLimit } from "./DrawLimit";
import { NoMetrics, NothingChosen, OtherRoles } from "./EmptyState";
import { Findings } from "./Findings";
import { Guard } from "./Guard";
import { Help } from "./Help";
import { Notes } from "./Notes";
import { Overlay } from "./Overlay";
import { RolesDialog } from "./RolesDialog";
import { RunList } from "./RunList";
import { Stacked } from "./Stacked";
import { useScene } from "./scene";

export function App({ session }: { session: Session }) {
  const state = useStore(session);
  const theme = state.view.theme === "auto" ? state.hostTheme : state.view.theme;
  useLayoutEffect(() => applyTokens(theme), [theme]);
  useLayoutEffect(() => {
    document.title = text.title;
    document.documentElement.lang = state.language === "zh" ? "zh-CN" : "en";
  }, [state.language]);
  useKeys(session);
  return (
    <div class="app" key={state.language}>
      <Bar session={session} state={state} theme={theme} />
      <Guard token={state.answer}>
        <RunList session={session} state={state} theme={theme} />
      </Guard>
      <main class="main">
        <Banner session={session} state={state} />
        <DrawLimit session={session} />
        <Guard token={state.frame}>
          <Main session={session} state={state} theme={theme} />
        </Guard>
      </main>
      {state.help && <Help onClose={() => session.patch({ help: false })} />}
      {state.picking && <RolesDialog session={session} onClose={() => session.patch({ picking: false })} />}
    </div>
  );
}

function Main({ session, state, theme }: { session: Session; state: SessionState; theme: ThemeName }) {
  const { answer, runs } = state;
  if (!answer) return state.problem ? null : <p class="waiting">{text.chart.loading}</p>;
  if (answer.runs.length === 0) return <NoMetrics session={session} searched={answer.searched} />;
  if (state.view.chart === "compare") return <Compare session={session} state={state} theme={theme} />;
  const chosen = session.chosen;
  if (chosen.length === 0) {
    return <NothingChosen onNewest={() => session.setView({ runs: defaultChoice(answer.runs) })} />;
  }
  if (session.drawn.runs.length === 0) {
    return (
      <>
        <OtherRoles
          runs={chosen.flatMap((name) => runs.get(name) ?? [])}
          onStacked={() => session.setView({ chart: "stacked" })}
        />
        <Findings session={session} state={state} theme={theme} />
      </>
    );
  }
  return <ChartPanel session={session} state={state} theme={theme} />;
}

function ChartPanel({ session, state, theme }: { session: Session; state: SessionState; theme: ThemeName }) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const { frame, problem } = state;
  const pending = state.loading || frame === null || frame.key !== session.queryKey;
  const scene = useScene(session, state, theme, pending);
  const Charts = state.view.chart === "stacked" ? Stacked : Overlay;
  const status = !pending ? "ready" : problem && !state.loading ? "error" : "loading";
  const { without } = session.drawn;
  const notes = <Notes scene={scene} plan={plan} missing={frame?.missing ?? []} without={without} />;
  return (
    <>
      <section class="chart">
        <ChartHead session={session} scene={scene} plan={plan} />
        {state.loading && <div class="loading-line" />}
        <Charts session={session} scene={scene} status={status} onPlan={setPlan} />
      </section>
      <Guard token={state.findings}>
        <Findings session={session} state={state} theme={theme} notes={notes} chart={{ scene, plan }} />
      </Guard>
    </>
  );
}

function useKeys(session: Session): void {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const target = e.target as HTMLElement;
      const typing = target.matches("input[type=text], textarea, select");
      if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
        e.preventDefault();
        document.getElementById("filter")?.focus();
      } else if (e.key === "?" && !typing && !e.ctrlKey && !e.metaKey) {
        e.preventDefault();
        session.patch({ help: true });
      } else if (e.key === "Escape") {
        if (session.pointed.state.pinned) session.pointed.patch({ pinned: false });
        else if (session.narrowed) session.showAll();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [session]);
}
