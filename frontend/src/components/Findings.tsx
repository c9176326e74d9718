import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Finding } from "../api";
import type { Plan } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { findingId, POINTS_TO_JUDGE, pointsOf, runOf, sortFindings } from "../findings";
import { distinctParts, middleEllipsis, sayable } from "../names";
import { colourOf } from "../palette";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { BelowToggle } from "./BelowToggle";
import { FindingRow } from "./FindingRow";
import { FindingsHead } from "./FindingsHead";
import { px } from "./px";
import { Resizer, useHeight } from "./Resizer";
import { Values } from "./Values";

interface Props {
  session: Session;
  state: SessionState;
  theme: ThemeName;
  /** What else there is to say of these runs. */
  notes?: ComponentChildren;
  /** The chart above, whose values may stand here instead. */
  chart?: { readonly scene: Scene; readonly plan: Plan | null };
}

/** Rows at first; a sweep can have thousands of findings. */
const MOST_ROWS = 200;

/** Under the chart: what the rules found in the chosen runs, worst first. */
export function Findings({ session, state, theme, notes, chart }: Props) {
  const [height, setHeight] = useHeight();
  const { findingsOf } = state.view;
  const only = runOf(findingsOf);
  // A run whose findings were looked at may have been unchecked since.
  const scope = only !== null && !session.chosen.includes(only) ? "selected" : findingsOf;
  const runs = useMemo(
    () => (scope === "all" ? state.order : session.chosen),
    [scope, state.order, state.view.runs, state.runs],
  );
  const found = useMemo(
    () =>
      sortFindings(
        runs.flatMap((run) => state.findings.get(run) ?? []),
        runs,
      ),
    [runs, state.findings],
  );
  const ofRun = scope === "all" || scope === "selected" ? found : found.filter((f) => f.run === only);
  const { level } = state.view;
  const shown = level === "all" ? ofRun : ofRun.filter((f) => f.severity === level);
  return (
    <section
      class="findings"
      style={{ height: px(height) }}
      aria-label={text.findings.heading}
      data-testid="findings"
      data-checking={state.checking}
    >
      <Resizer height={height} onHeight={setHeight} />
      {chart && state.view.below === "values" ? (
        <Values session={session} {...chart} />
      ) : (
        <>
          <FindingsHead session={session} state={state} scope={scope} found={ofRun} shown={shown}>
            {chart ? <BelowToggle session={session} /> : <h2>{text.findings.heading}</h2>}
          </FindingsHead>
          <div class="findings-body" data-testid="findings-body">
            <List session={session} state={state} theme={theme} shown={shown} />
            {shown.length === 0 && <p class="findings-empty">{nothing(state, ofRun, runs, scope)}</p>}
            <Unchecked state={state} runs={runs} />
            {notes}
          </div>
        </>
      )}
    </section>
  );
}

function Unchecked({ state, runs }: { state: SessionState; runs: readonly string[] }) {
  const here = new Set(runs);
  return (
    <>
      {[...state.unchecked].map(
        ([run, why]) =>
          here.has(run) && (
            <p key={run} class="findings-empty" data-testid="findings-failed">
              {text.findings.failed(sayable(run), why)}
            </p>
          ),
      )}
    </>
  );
}

function nothing(
  state: SessionState,
  ofRun: readonly Finding[],
  runs: readonly string[],
  scope: string,
): string {
  if (runs.length === 0) return text.findings.noRuns;
  if (ofRun.length > 0) return text.findings.noneOfLevel;
  if (state.checking > 0) return text.findings.loading;
  if (runs.some((run) => state.unchecked.has(run))) return "";
  const one = runOf(scope) ?? (runs.length === 1 ? runs[0] : undefined);
  if (one === undefined) return text.findings.none(runs.length);
  const run = state.runs.get(one);
  const points = run ? pointsOf(run) : null;
  if (points !== null && points < POINTS_TO_JUDGE) return text.findings.tooFew(points, POINTS_TO_JUDGE);
  return text.findings.none(1);
}

function List({ session, state, theme, shown }: Props & { shown: readonly Finding[] }) {
  const [all, setAll] = useState(false);
  const parts = useMemo(() => distinctParts(session.chosen), [state.view.runs, state.runs]);
  const chosen = state.view.finding;
  const rows = all ? shown : shown.slice(0, MOST_ROWS);
  return (
    <>
      <ul class="findings-list" onKeyDown={walk}>
        {rows.map((finding) => {
          const id = findingId(finding);
          return (
            <FindingRow
              key={id}
              session={session}
              finding={finding}
              label={middleEllipsis(parts.get(finding.run) ?? finding.run, 20)}
              colour={colourOf(finding.run, state.slots, theme)}
              selected={id === chosen}
            />
          );
        })}
      </ul>
      {rows.length < shown.length && (
        <button type="button" class="link more" onClick={() => setAll(true)}>
          {text.missing.more(shown.length - rows.length)}
        </button>
      )}
    </>
  );
}

/** Up and down between the rows, whichever of a row's buttons has the focus. */
function walk(e: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
  if (step === 0) return;
  const rows = [...e.currentTarget.querySelectorAll<HTMLElement>("[data-testid=finding-zoom]")];
  const at = rows.findIndex((button) => button.closest("li")?.contains(document.activeElement));
  rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
  e.preventDefault();
}
