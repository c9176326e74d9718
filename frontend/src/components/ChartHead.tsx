import { coloursAreRoles } from "../chart/canvas";
import { nonFiniteRoles, type Plan, rangesOf } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { seriesIndex } from "../chart/series";
import { type OverlayRole, ROLE_STYLE } from "../roles";
import type { Session } from "../session";
import { COLUMNS, type Mode, Y_RANGES, type YRange } from "../state";
import { text } from "../text";
import { LockIcon } from "./icons";
import { LineSample } from "./LineSample";

export function ChartHead({ session, scene, plan }: { session: Session; scene: Scene; plan: Plan | null }) {
  const stacked = scene.layout === "panel";
  return (
    <div class="chart-head">
      <Legend scene={scene} />
      <span class="spring" />
      {stacked && (
        <span class="hint">
          {text.chart.gestures[0]}
          <kbd>{text.chart.gestures[1]}</kbd>
          {text.chart.gestures[2]}
        </span>
      )}
      <ResetZoom session={session} />
      {stacked ? <Columns session={session} /> : <Modes session={session} scene={scene} />}
      <YRangeField session={session} plan={plan} />
    </div>
  );
}

export function ResetZoom({ session }: { session: Session }) {
  if (!session.narrowed) return null;
  return (
    <button
      type="button"
      class="link"
      data-testid="reset-zoom"
      title={text.chart.resetTitle}
      onClick={() => session.showAll()}
    >
      {text.chart.resetZoom}
    </button>
  );
}

export function YRangeField({ session, plan }: { session: Session; plan: Plan | null }) {
  return (
    <label class="field" title={text.chart.yRangeTitle}>
      <span>{text.chart.yRange}</span>
      <select
        data-testid="y-range"
        value={session.state.view.y}
        onChange={(e) => session.setView({ y: e.currentTarget.value as YRange })}
      >
        {Y_RANGES.map((y) => (
          <option key={y} value={y}>
            {text.chart.yRanges[y]}
          </option>
        ))}
      </select>
      <Lock session={session} plan={plan} />
    </label>
  );
}

/** Up to so many runs their metrics can be told apart in one frame. */
const MOST_MERGED = 3;

function Modes({ session, scene }: { session: Session; scene: Scene }) {
  const many = scene.runs.length > MOST_MERGED;
  const setMode = (mode: Mode) => session.setView(scene.runs.length === 1 ? { one: mode } : { many: mode });
  return (
    <span class="field">
      <span id="axes-label">{text.chart.axes}</span>
      <fieldset class="toggle" aria-labelledby="axes-label" data-testid="mode-toggle">
        {(["lanes", "merged"] as const).map((mode) => (
          <button
            key={mode}
            type="button"
            aria-pressed={scene.layout === mode}
            data-mode={mode}
            class={mode === "merged" && many ? "less" : ""}
            title={
              mode === "merged" && many ? text.chart.many(scene.runs.length) : text.chart.modeTitles[mode]
            }
            onClick={() => setMode(mode)}
          >
            {text.chart.modes[mode]}
          </button>
        ))}
      </fieldset>
    </span>
  );
}

function Columns({ session }: { session: Session }) {
  return (
    <span class="field columns">
      <span>{text.chart.panels}</span>
      <fieldset
        class="toggle"
        aria-label={`${text.chart.panels} · ${text.chart.columns}`}
        data-testid="columns"
      >
        {COLUMNS.map((columns) => (
          <button
            key={columns}
            type="button"
            aria-pressed={session.state.view.columns === columns}
            onClick={() => session.setView({ columns })}
          >
            {columns}
          </button>
        ))}
      </fieldset>
      <span>{text.chart.columns}</span>
    </span>
  );
}

/** Holds the y ranges that are on the screen, or lets them go. */
function Lock({ session, plan }: { session: Session; plan: Plan | null }) {
  const { yLock } = session.state.view;
  const title = yLock ? text.chart.unlock : text.chart.lock;
  return (
    <button
      type="button"
      class="button square small"
      data-testid="y-lock"
      aria-pressed={yLock}
      aria-label={title}
      title={title}
      disabled={!plan}
      onClick={() =>
        session.setView(yLock ? { yLock: false, ranges: {} } : { yLock: true, ranges: rangesOf(plan!) })
      }
    >
      <LockIcon open={!yLock} />
    </button>
  );
}

/** Points in a segment from which on the chart shows them as a band. */
const CROWDED = 700;

function Legend({ scene }: { scene: Scene }) {
  const merged = scene.layout === "merged";
  const coloured = coloursAreRoles(scene);
  const old = scene.segments.some((s) => !s.current && s.n > 0);
  const index = seriesIndex(scene.segments);
  const curves = scene.roles.filter((role) => ROLE_STYLE[role].smooth).flatMap((role) => index.role(role));
  const crowded = curves.some((s) => !s.raw || s.n > CROWDED);
  return (
    <div class="legend" data-testid="legend">
      {merged ? (
        scene.roles.map((role) => (
          <span
            key={role}
            data-testid="legend-item"
            data-role={role}
            style={coloured ? { color: `var(--${role})` } : {}}
          >
            <LineSample of={role as OverlayRole} />
            {text.axisTitle[role]}
          </span>
        ))
      ) : (
        <span data-testid="legend-item" data-role="loss">
          <LineSample of="loss" />
          {scene.smoothing > 0 ? text.chart.smoothed(scene.smoothing) : text.chart.unsmoothed}
        </span>
      )}
      {curves.length > 0 && (crowded || (scene.smoothing > 0 && scene.runs.length <= 6)) && (
        <span class="aside">
          <svg width="24" height="12" aria-hidden="true">
            <rect width="24" height="12" fill="currentColor" opacity="0.14" />
            <path
              d="M0 7 2 4 4 8 7 3 9 8 12 5 14 9 17 4 19 8 22 5 24 7"
              fill="none"
              stroke="currentColor"
              stroke-opacity="0.55"
            />
          </svg>
          {crowded ? text.chart.band : text.chart.raw}
        </span>
      )}
      {old && (
        <span class="aside">
          <svg width="24" height="12" aria-hidden="true">
            <rect width="24" height="12" fill="var(--info)" opacity="0.1" />
            <path
              d="M0 7 2 4 4 8 7 3 9 8 12 5 14 9 17 4 19 8 22 5 24 7"
              fill="none"
              stroke="currentColor"
              stroke-opacity="0.4"
            />
          </svg>
          {text.chart.superseded}
        </span>
      )}
      {merged && <Ticks scene={scene} coloured={coloured} />}
    </div>
  );
}

/** What the short ticks at the bottom of the frame stand for; Lanes say it in their titles. */
function Ticks({ scene, coloured }: { scene: Scene; coloured: boolean }) {
  const overflow = scene.roles.includes("loss_scale") && seriesIndex(scene.segments).overflowRuns.length > 0;
  return (
    <>
      {overflow && (
        <span data-testid="legend-item" data-role="overflow">
          <TickSample height={5} colour={coloured ? "var(--loss_scale)" : "currentColor"} />
          {text.chart.overflow}
        </span>
      )}
      {nonFiniteRoles(scene).map((role) => {
        const own = seriesIndex(scene.segments).role(role);
        const nan = own.some((s) => s.nonfinite?.nan.some((n) => n > 0));
        const colour = role === "loss" ? "var(--critical)" : coloured ? `var(--${role})` : "currentColor";
        return (
          <span key={role} data-testid="legend-item" data-role="nonfinite">
            <TickSample height={8} colour={colour} />
            {text.chart.notFinite(text.axisTitle[role], nan ? "NaN" : "Inf")}
          </span>
        );
      })}
    </>
  );
}

function TickSample({ height, colour }: { height: number; colour: string }) {
  const path = [1, 5, 12].map((x) => `M${x} 11v-${height}`).join("");
  return (
    <svg width="13" height="12" aria-hidden="true">
      <path d={path} stroke={colour} stroke-width="1.25" />
    </svg>
  );
}
