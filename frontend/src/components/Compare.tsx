/** Runs against the pinned baseline: what comes of it, the curves, what was found. */
import { useState } from "preact/hooks";
import { type Tolerance, toleranceText } from "../chart/compare";
import type { Plan } from "../chart/plan";
import { comparableRoles } from "../compare";
import { sayable } from "../names";
import type { LoggedRole } from "../roles";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { ResetZoom, YRangeField } from "./ChartHead";
import { CompareChart } from "./CompareChart";
import { CompareSettings, countSettings } from "./CompareSettings";
import { CompareVerdicts } from "./CompareVerdicts";
import { useComparedScene, useComparisons } from "./comparisons";
import { Disclosure } from "./Disclosure";
import { Findings } from "./Findings";
import { Guard } from "./Guard";
import { FlagIcon } from "./icons";

interface Props {
  session: Session;
  state: SessionState;
  theme: ThemeName;
}

export function Compare(props: Props) {
  const { session, state, theme } = props;
  if (session.baseline !== null) return <Compared {...props} />;
  return (
    <>
      <div class="empty-scroll">
        <PinOne session={session} state={state} />
      </div>
      <Guard token={state.findings}>
        <Findings session={session} state={state} theme={theme} />
      </Guard>
    </>
  );
}

/** Choices in a select; of more runs than that the list with its filter is the place to pin one. */
const MOST_CHOICES = 300;

function PinOne({ session, state }: Pick<Props, "session" | "state">) {
  const { baseline } = state.view;
  const names = [...new Set([...session.chosen, ...state.order])].slice(0, MOST_CHOICES);
  return (
    <section class="empty short" data-testid="empty-state" data-kind="no-baseline">
      <h2>{text.compare.pinTitle}</h2>
      {baseline !== null && <p>{text.compare.gone(sayable(baseline))}</p>}
      <p>
        {text.compare.pinText} <FlagIcon />
      </p>
      <p>
        <select
          class="pin-choice"
          data-testid="pin-choice"
          aria-label={text.compare.pinLabel}
          value=""
          onChange={(e) => session.setView({ baseline: e.currentTarget.value })}
        >
          <option value="" disabled>
            {text.compare.pinChoose}
          </option>
          {names.map((name) => (
            <option key={name} value={name}>
              {sayable(name)}
            </option>
          ))}
        </select>
      </p>
    </section>
  );
}

function Compared({ session, state, theme }: Props) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const [open, setOpen] = useState(false);
  const { compared, pending: comparing } = useComparisons(session, state);
  const pending = state.loading || state.frame === null || state.frame.key !== session.queryKey;
  const scene = useComparedScene(session, state, theme, pending, compared);
  const status = !pending && !comparing ? "ready" : state.problem && !state.loading ? "error" : "loading";
  const runs = scene.runs.filter((run) => run.run !== session.baseline);
  const settings = countSettings(runs, compared);
  return (
    <>
      <CompareVerdicts session={session} runs={scene.runs} compared={compared} />
      <section class="chart">
        <div class="chart-head">
          <MetricField session={session} state={state} />
          {settings !== null && (
            <Disclosure
              label={`${text.compare.details} · ${text.compare.settings(settings)}`}
              open={open}
              onToggle={() => setOpen(!open)}
              testid="compare-settings-toggle"
              title={text.compare.settingsTitle}
            />
          )}
          <span class="spring" />
          <Legend allowed={state.view} />
          <ResetZoom session={session} />
          <YRangeField session={session} plan={plan} />
        </div>
        {open && settings !== null && <CompareSettings scene={scene} runs={runs} compared={compared} />}
        {(state.loading || comparing) && <div class="loading-line" />}
        <CompareChart session={session} scene={scene} status={status} onPlan={setPlan} />
      </section>
      <Guard token={state.findings}>
        <Findings session={session} state={state} theme={theme} chart={{ scene, plan }} />
      </Guard>
    </>
  );
}

function MetricField({ session, state }: Pick<Props, "session" | "state">) {
  const { runs } = state;
  const baseline = runs.get(session.baseline!)!;
  const others = session.drawn.runs.filter((run) => run !== baseline);
  const metric = session.metric;
  const roles = comparableRoles(baseline, others);
  return (
    <label class="field" title={text.compare.metricTitle}>
      <span>{text.compare.metric}</span>
      <select
        data-testid="compare-metric"
        value={metric}
        onChange={(e) =>
          // What was said in another metric's unit says nothing of this one.
          session.setView({
            metric: e.currentTarget.value as LoggedRole,
            absolute: 0,
            ranges: {},
            yLock: false,
          })
        }
      >
        {(roles.includes(metric) ? roles : [metric, ...roles]).map((role) => (
          <option key={role} value={role}>
            {text.axisTitle[role]}
          </option>
        ))}
      </select>
    </label>
  );
}

function Legend({ allowed }: { allowed: Tolerance }) {
  return (
    <div class="legend" data-testid="legend">
      {(allowed.tolerance > 0 || allowed.absolute > 0) && (
        <span data-testid="legend-tolerance">
          <svg width="24" height="12" aria-hidden="true">
            <rect y="6" width="24" height="6" fill="var(--ok)" opacity="0.15" />
            <path d="M0 6h24" stroke="currentColor" stroke-dasharray="4 3" />
          </svg>
          {text.compare.legendTolerance(`±${toleranceText(allowed)}`)}
        </span>
      )}
      <span>
        <b class="critical-text" aria-hidden="true">
          ◆
        </b>
        {text.compare.legendParted}
      </span>
    </div>
  );
}
