import { formatRough } from "../format";
import { COMPARE_AXES, canBeLog, X_AXES, type XAxis } from "../roles";
import { isLive, secondsLeft } from "../selection";
import type { Session, SessionState } from "../session";
import { CHARTS } from "../state";
import { formatSmoothing, text } from "../text";
import type { ThemeName } from "../theme";
import { CopyButton } from "./CopyButton";
import { useNow } from "./clock";
import { ExportMenu } from "./ExportMenu";
import { LinkIcon, MoonIcon, SunIcon } from "./icons";
import { ReloadMenu } from "./ReloadMenu";

export function Bar({ session, state, theme }: { session: Session; state: SessionState; theme: ThemeName }) {
  const { view, hostTheme } = state;
  const runs = session.drawn.runs;
  const idle = runs.length === 0;
  const comparing = view.chart === "compare";
  const available = (axis: XAxis) =>
    axis === "step" ||
    ((!comparing || COMPARE_AXES.includes(axis)) && (idle || runs.some((r) => r.axes.includes(axis))));
  // With one run alone there is nothing to compare, and nothing to pin.
  const alone = (state.answer?.runs.length ?? 0) < 2 && session.baseline === null;
  const other: ThemeName = theme === "dark" ? "light" : "dark";
  return (
    <header class="bar" data-testid="bar">
      <h1>{text.title}</h1>
      <fieldset class="toggle" aria-label={text.views.label} data-testid="views">
        {CHARTS.map((chart) => (
          <button
            key={chart}
            type="button"
            disabled={!state.answer?.runs.length || (chart === "compare" && alone && !comparing)}
            aria-pressed={view.chart === chart}
            data-view={chart}
            title={chart === "compare" && alone ? text.compare.needsRuns : text.views.titles[chart]}
            onClick={() => session.setView({ chart })}
          >
            {text.views.names[chart]}
          </button>
        ))}
      </fieldset>
      <span class="rule" />
      <label class="field" title={text.x.titles[session.x] ?? text.x.title}>
        <span>{text.x.label}</span>
        <select
          class="x-axis"
          data-testid="x-axis"
          value={session.x}
          disabled={idle}
          onChange={(e) => session.setView({ x: e.currentTarget.value as XAxis })}
        >
          {X_AXES.map((axis) => (
            <option
              key={axis}
              value={axis}
              disabled={!available(axis)}
              title={
                available(axis) ? text.x.titles[axis] : comparing ? text.compare.onlyX : text.x.unavailable
              }
            >
              {text.x.names[axis]}
            </option>
          ))}
        </select>
      </label>
      <label class="field check" title={canBeLog(session.x) ? text.chart.logXTitle : text.chart.noLogX}>
        <input
          type="checkbox"
          data-testid="log-x"
          disabled={idle || !canBeLog(session.x)}
          checked={view.logX && canBeLog(session.x)}
          onChange={(e) => session.setView({ logX: e.currentTarget.checked })}
        />
        <span>{text.chart.logX}</span>
      </label>
      <label class="field" title={text.smoothing.title}>
        <span>{text.smoothing.label}</span>
        <input
          type="range"
          data-testid="smoothing"
          min="0"
          max="0.99"
          step="0.01"
          disabled={idle}
          value={view.smoothing}
          style={{ "--filled": `${(Math.min(view.smoothing, 0.99) / 0.99) * 100}%` }}
          onInput={(e) => session.setView({ smoothing: e.currentTarget.valueAsNumber }, true)}
        />
        <output class="number" data-testid="smoothing-value">
          {formatSmoothing(view.smoothing)}
        </output>
      </label>
      <span class="spring" />
      <LastEvent session={session} state={state} />
      <ReloadMenu session={session} state={state} />
      <ExportMenu session={session} />
      <CopyButton
        what={() => session.link}
        copied="✓"
        title={text.link.title}
        label={text.link.copy}
        testid="copy-link"
        class="button square"
      >
        <LinkIcon />
      </CopyButton>
      <span class="rule" />
      <button
        type="button"
        class="button plain"
        data-testid="language"
        lang={state.language === "en" ? "zh-CN" : "en"}
        aria-label={`${text.otherLanguage}: ${text.switchLanguage}`}
        title={text.switchLanguage}
        onClick={() => session.setLanguage(state.language === "en" ? "zh" : "en")}
      >
        {text.otherLanguage}
      </button>
      <button
        type="button"
        class="button square plain"
        data-testid="theme"
        aria-label={text.theme(other)}
        title={text.theme(other)}
        onClick={() => session.setView({ theme: other === hostTheme ? "auto" : other })}
      >
        {theme === "dark" ? <SunIcon /> : <MoonIcon />}
      </button>
      <button
        type="button"
        class="button square plain"
        data-testid="help"
        aria-label={text.help.open}
        title={text.help.open}
        onClick={() => session.patch({ help: true })}
      >
        ?
      </button>
    </header>
  );
}

function LastEvent({ session, state }: { session: Session; state: SessionState }) {
  const now = useNow(1000);
  const runs = state.answer?.runs ?? [];
  const newest = runs.reduce((t, r) => Math.max(t, r.last_wall_time), 0);
  if (newest === 0) return null;
  const live = isLive(runs, now);
  const age = text.age(now - newest);
  // Of what is looked at, the run that takes longest.
  const left = Math.max(0, ...session.drawn.runs.map((run) => secondsLeft(run) ?? 0));
  return (
    <>
      {left > 0 && (
        <span class="time-left" data-testid="time-left">
          {text.runs.left(formatRough(left))}
        </span>
      )}
      <span class="live" data-testid="last-event">
        <span class={live ? "dot live" : "dot"} />
        {live ? text.live(age) : text.lastEvent(age)}
      </span>
    </>
  );
}
