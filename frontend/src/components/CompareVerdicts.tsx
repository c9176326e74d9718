import { useState } from "preact/hooks";
import type { Comparison, RunInfo, Verdict } from "../api";
import { percentText } from "../chart/compare";
import type { DrawnRun } from "../chart/scene";
import type { Compared } from "../compare";
import { formatCount, formatValue } from "../format";
import { middleEllipsis, sayable } from "../names";
import type { LoggedRole } from "../roles";
import type { Session } from "../session";
import { MOST_TOLERANCE } from "../state";
import { text } from "../text";
import { FlagIcon } from "./icons";

interface Props {
  session: Session;
  /** The baseline and those that are compared with it. */
  runs: readonly DrawnRun[];
  compared: ReadonlyMap<string, Compared>;
}

/** A cell for the baseline, one for each run, and one for the tolerance that they are judged by. */
export function CompareVerdicts({ session, runs, compared }: Props) {
  const { baseline, metric } = session;
  const reference = runs.find((run) => run.run === baseline);
  const others = runs.filter((run) => run.run !== baseline);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls where runs are many
    <section class="verdicts" aria-label={text.compare.verdicts} tabIndex={0} data-testid="verdicts">
      <div class="verdict-cell narrow" data-testid="verdict-baseline">
        <p class="verdict-run">
          {text.compare.baseline} <FlagIcon />
        </p>
        {reference && (
          <>
            <p class="verdict-title" title={reference.run}>
              <i class="swatch" style={{ background: reference.colour }} />
              {middleEllipsis(reference.run, 24)}
            </p>
            <p class="verdict-said">{known(reference.info, metric)}</p>
          </>
        )}
      </div>
      {others.map((run) => (
        <RunCell key={run.run} run={run} compared={compared.get(run.run) ?? null} />
      ))}
      {others.length === 0 && (
        <div class="verdict-cell">
          <p class="verdict-said">{text.compare.noRuns}</p>
        </div>
      )}
      <ToleranceCell session={session} />
    </section>
  );
}

function known(info: RunInfo, metric: LoggedRole): string {
  const role = info.roles[metric];
  if (!role) return text.compare.notLogged(text.role(metric));
  const { points, last_value } = role;
  return text.compare.known(
    points === null ? "" : formatCount(points),
    text.role(metric),
    typeof last_value === "number" ? formatValue(last_value, metric) : (last_value ?? ""),
  );
}

const SIGNS: Record<Comparison["verdict"], readonly [sign: string, severity: Verdict]> = {
  same: ["✓", "ok"],
  ratio: ["×", "warning"],
  offset: ["±", "warning"],
  differs: ["!", "warning"],
};

function RunCell({ run, compared }: { run: DrawnRun; compared: Compared | null }) {
  const { answer = null, problem = null } = compared ?? {};
  const verdict = answer?.verdict ?? (problem ? "failed" : "pending");
  return (
    <div class="verdict-cell" data-testid="verdict" data-run={run.run} data-verdict={verdict}>
      <p class="verdict-run" title={run.run}>
        <i class="swatch" style={{ background: run.colour }} />
        {middleEllipsis(run.run, 44)}
      </p>
      {answer && (
        <>
          <Title {...answer} />
          <p class="verdict-said" data-testid="verdict-message" title={answer.message}>
            {answer.message}
          </p>
          {answer.notes.map((note) => (
            <p key={note} class="verdict-said note" data-testid="verdict-note" title={note}>
              {note}
            </p>
          ))}
        </>
      )}
      {problem && (
        <>
          <p class="verdict-title critical-text" data-testid="verdict-title">
            <span aria-hidden="true">✕</span> {text.compare.failed}
          </p>
          <p class="verdict-said problem" role="alert" data-testid="verdict-message">
            {problemText(compared!)}
          </p>
        </>
      )}
      {!compared && <p class="verdict-said">{text.compare.comparing}</p>}
    </div>
  );
}

function Title({ verdict, title }: Comparison) {
  const [sign, severity] = SIGNS[verdict] ?? SIGNS.differs;
  return (
    <p class={`verdict-title ${severity}-text`} data-testid="verdict-title">
      <span aria-hidden="true">{sign}</span> {title}
    </p>
  );
}

/** The server's errors begin small and end without a stop, as errors on a terminal do. */
const sentence = (said: string): string =>
  said && `${said[0]!.toUpperCase()}${said.slice(1)}${/[.。!?]$/.test(said) ? "" : "."}`;

/** Names that the server repeats would bury what it says where they are long. */
export const problemText = ({ query, problem }: Compared): string => {
  const short = (said: string) =>
    [query.run, query.baseline].reduce((s, name) => s.replaceAll(name, sayable(name)), said);
  return [problem?.message ?? "", problem?.hint ?? ""].map(short).map(sentence).filter(Boolean).join(" ");
};

function ToleranceCell({ session }: { session: Session }) {
  const { tolerance, absolute } = session.state.view;
  return (
    <div class="verdict-cell narrow" data-testid="verdict-tolerance" title={text.compare.toleranceTitle}>
      <p class="verdict-run">{text.compare.tolerance}</p>
      <p class="verdict-title tolerances">
        <NumberField
          value={percentText(tolerance)}
          most={MOST_TOLERANCE * 100}
          label={text.compare.toleranceLabel}
          testid="tolerance"
          onTake={(percent) => session.setView({ tolerance: Number((percent / 100).toPrecision(6)) })}
        />
        % +
        <NumberField
          value={String(absolute)}
          most={Number.MAX_VALUE}
          label={text.compare.absoluteLabel(text.role(session.metric))}
          testid="absolute"
          onTake={(amount) => session.setView({ absolute: amount })}
        />
      </p>
      <p class="verdict-said">{text.compare.tolerancePoints}</p>
    </div>
  );
}

interface NumberFieldProps {
  /** What it holds, and goes back to where something else is typed than a number from 0 to `most`. */
  value: string;
  most: number;
  label: string;
  testid: string;
  onTake: (value: number) => void;
}

function NumberField({ value, most, label, testid, onTake }: NumberFieldProps) {
  // Data that come, or a run that is lit, draw the field anew while somebody types into it.
  const [typed, setTyped] = useState<string | null>(null);
  const take = (number: number) => {
    setTyped(null);
    if (Number.isFinite(number) && number >= 0 && number <= most) onTake(number);
  };
  return (
    <input
      type="number"
      class="tolerance"
      data-testid={testid}
      min="0"
      max={most}
      step="any"
      aria-label={label}
      title={label}
      value={typed ?? value}
      onInput={(e) => setTyped(e.currentTarget.value)}
      onChange={(e) => take(e.currentTarget.valueAsNumber)}
      onKeyDown={(e) => {
        if (e.key === "Enter") take(e.currentTarget.valueAsNumber);
        if (e.key === "Escape") setTyped(null);
      }}
    />
  );
}
