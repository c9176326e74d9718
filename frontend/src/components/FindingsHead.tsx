import type { ComponentChildren } from "preact";
import { type Finding, SEVERITIES, type Severity } from "../api";
import { countBySeverity, findingsAsCsv, findingsAsJson, findingsAsText, scopeOf } from "../findings";
import { saveText } from "../hand-over";
import { middleEllipsis } from "../names";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import { CopyButton } from "./CopyButton";
import { SeverityIcon } from "./Severity";

interface Props {
  session: Session;
  state: SessionState;
  scope: string;
  /** Of the chosen runs, and of these those of the chosen severity. */
  found: readonly Finding[];
  shown: readonly Finding[];
  /** What the panel is called. */
  children: ComponentChildren;
}

/** How many there are, which of them are listed, and ways to take them away. */
export function FindingsHead({ session, state, scope, found, shown, children }: Props) {
  const { level } = state.view;
  return (
    <div class="findings-head">
      {children}
      <Counts session={session} found={found} level={level} />
      <span class="spring" />
      <LevelSelect session={session} level={level} />
      <ScopeSelect session={session} scope={scope} runs={session.chosen} />
      <span class="rule" />
      <Exports shown={shown} />
    </div>
  );
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

function ScopeSelect({ session, scope, runs }: { session: Session; scope: string; runs: readonly string[] }) {
  return (
    <select
      class="scope"
      data-testid="findings-scope"
      aria-label={text.findings.runs}
      value={scope}
      onChange={(e) => session.setView({ findingsOf: e.currentTarget.value })}
    >
      <option value="selected">{text.findings.selectedRuns}</option>
      <option value="all">{text.findings.allRuns}</option>
      {runs.slice(0, MOST_CHOICES).map((run) => (
        <option key={run} value={scopeOf(run)}>
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
