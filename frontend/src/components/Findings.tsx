import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Finding, SEVERITIES, type Severity } from "../api";
import {
  countBySeverity,
  findingId,
  findingsAsCsv,
  findingsAsJson,
  findingsAsText,
  sortFindings,
  stepsText,
} from "../findings";
import { saveText } from "../hand-over";
import { distinctParts, middleEllipsis } from "../names";
import { colourOf } from "../palette";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { CopyButton } from "./CopyButton";
import { Disclosure } from "./Disclosure";
import { ExpandIcon } from "./icons";
import { px } from "./px";
import { Resizer, useHeight } from "./Resizer";
import { SeverityIcon } from "./Severity";

interface Props {
  session: Session;
  state: SessionState;
  theme: ThemeName;
  /** What else there is to say of these runs. */
  notes?: ComponentChildren;
}

/** Rows at first; a sweep can have thousands of findings. */
const MOST_ROWS = 200;

/** Under the chart: what the rules found in the chosen runs, worst first. */
export function Findings({ session, state, theme, notes }: Props) {
  const [height, setHeight] = useHeight();
  const scope = state.findingsOf;
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
  const ofRun = scope === "all" || scope === "selected" ? found : found.filter((f) => f.run === scope);
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
      <div class="findings-head">
        <h2>{text.findings.heading}</h2>
        <Counts session={session} found={ofRun} level={level} />
        <span class="spring" />
        <LevelSelect session={session} level={level} />
        <ScopeSelect session={session} state={state} runs={session.chosen} />
        <span class="rule" />
        <Exports shown={shown} />
      </div>
      <div class="findings-body" data-testid="findings-body">
        <List session={session} state={state} theme={theme} shown={shown} />
        {shown.length === 0 && <p class="findings-empty">{nothing(state, ofRun, runs)}</p>}
        {[...state.unchecked]
          .filter(([run]) => runs.includes(run))
          .map(([run, why]) => (
            <p key={run} class="findings-empty" data-testid="findings-failed">
              {text.findings.failed(run, why)}
            </p>
          ))}
        {notes}
      </div>
    </section>
  );
}

function nothing(state: SessionState, ofRun: readonly Finding[], runs: readonly string[]): string {
  if (runs.length === 0) return text.findings.noRuns;
  if (ofRun.length > 0) return text.findings.noneOfLevel;
  if (state.checking > 0) return text.findings.loading;
  if (runs.some((run) => state.unchecked.has(run))) return "";
  return text.findings.none(state.findingsOf === "all" || state.findingsOf === "selected" ? runs.length : 1);
}

function Counts({
  session,
  found,
  level,
}: {
  session: Session;
  found: readonly Finding[];
  level: "all" | Severity;
}) {
  const counts = countBySeverity(found);
  return (
    <>
      {SEVERITIES.filter((severity) => counts[severity] > 0).map((severity) => (
        <button
          key={severity}
          type="button"
          class={`pill ${severity}`}
          data-testid="findings-count"
          data-severity={severity}
          aria-pressed={level === severity}
          onClick={() => session.setView({ level: level === severity ? "all" : severity })}
        >
          <SeverityIcon of={severity} /> {text.findings.count(counts[severity], severity)}
        </button>
      ))}
    </>
  );
}

function LevelSelect({ session, level }: { session: Session; level: "all" | Severity }) {
  return (
    <select
      data-testid="findings-level"
      aria-label={text.findings.level}
      value={level}
      onChange={(e) => session.setView({ level: e.currentTarget.value as "all" | Severity })}
    >
      <option value="all">{text.findings.allLevels}</option>
      {SEVERITIES.map((severity) => (
        <option key={severity} value={severity}>
          {text.findings.severity[severity]}
        </option>
      ))}
    </select>
  );
}

const MOST_CHOICES = 200;

function ScopeSelect({
  session,
  state,
  runs,
}: {
  session: Session;
  state: SessionState;
  runs: readonly string[];
}) {
  return (
    <select
      class="scope"
      data-testid="findings-scope"
      aria-label={text.findings.runs}
      value={state.findingsOf}
      onChange={(e) => session.setFindingsOf(e.currentTarget.value)}
    >
      <option value="selected">{text.findings.selectedRuns}</option>
      <option value="all">{text.findings.allRuns}</option>
      {runs.slice(0, MOST_CHOICES).map((run) => (
        <option key={run} value={run}>
          {middleEllipsis(run, 40)}
        </option>
      ))}
    </select>
  );
}

function Exports({ shown }: { shown: readonly Finding[] }) {
  const none = shown.length === 0;
  return (
    <span class="findings-exports">
      <CopyButton
        what={() => findingsAsText(shown)}
        copied={text.findings.copied}
        title={text.findings.copyTitle}
        testid="findings-copy"
        disabled={none}
      >
        {text.findings.copy}
      </CopyButton>
      <button
        type="button"
        class="button"
        data-testid="findings-json"
        title={text.findings.saveTitle("JSON")}
        disabled={none}
        onClick={() => saveText("findings.json", "application/json", findingsAsJson(shown))}
      >
        JSON
      </button>
      <button
        type="button"
        class="button"
        data-testid="findings-csv"
        title={text.findings.saveTitle("CSV")}
        disabled={none}
        onClick={() => saveText("findings.csv", "text/csv", findingsAsCsv(shown))}
      >
        CSV
      </button>
    </span>
  );
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
            <Row
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

interface RowProps {
  session: Session;
  finding: Finding;
  label: string;
  colour: string;
  selected: boolean;
}

function Row({ session, finding, label, colour, selected }: RowProps) {
  const [open, setOpen] = useState(selected);
  const { severity, run, message, advice } = finding;
  const hover = (on: boolean) => {
    if (session.chosen.includes(run)) session.patch({ hovered: on ? run : null });
  };
  const toggle = () => {
    setOpen(!selected);
    if (selected) session.showAll();
    else session.selectFinding(finding);
  };
  return (
    // The row is a larger target for the pointer; its buttons do the same for everybody else.
    // biome-ignore lint/a11y/useKeyWithClickEvents: see above
    <li
      class={selected ? "finding selected" : "finding"}
      data-testid="finding"
      data-severity={severity}
      data-run={run}
      data-rule={finding.rule}
      aria-current={selected ? "true" : undefined}
      onMouseEnter={() => hover(true)}
      onMouseLeave={() => hover(false)}
      onClick={toggle}
    >
      <span class={`disc ${severity}`} role="img" aria-label={text.findings.severity[severity]}>
        <SeverityIcon of={severity} />
      </span>
      <span class="finding-run" title={run}>
        <span class="swatch" style={{ background: colour }} />
        <span class="finding-name">{label}</span>
      </span>
      <div class="finding-said">
        <span data-testid="finding-message">{message}</span>{" "}
        {advice && (
          <Disclosure
            label={text.findings.advice}
            open={open}
            onToggle={() => setOpen(!open)}
            testid="finding-advice-toggle"
          />
        )}
        {advice && open && (
          <p class="finding-advice" data-testid="finding-advice">
            <b>{text.findings.tryThis}</b> {advice}
          </p>
        )}
      </div>
      <span class="finding-steps number" data-testid="finding-steps">
        {stepsText(finding)}
      </span>
      <button
        type="button"
        class="link zoom"
        data-testid="finding-zoom"
        aria-pressed={selected}
        aria-label={`${text.findings.zoom}: ${message}`}
        title={selected ? text.findings.unzoom : text.findings.zoomTitle}
        onClick={(e) => {
          e.stopPropagation();
          toggle();
        }}
      >
        {text.findings.zoom} <ExpandIcon />
      </button>
    </li>
  );
}
