import { nonFiniteRoles, overflowRuns } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { isOverlayRole, ROLE_STYLE } from "../roles";
import type { Session } from "../session";
import { type Mode, Y_RANGES, type YRange } from "../state";
import { text } from "../text";
import { LineSample } from "./LineSample";

export function ChartHead({ session, scene }: { session: Session; scene: Scene }) {
  const { view } = session.state;
  const setMode = (mode: Mode) => session.setView(scene.runs.length === 1 ? { one: mode } : { many: mode });
  return (
    <div class="chart-head">
      <Legend scene={scene} />
      <span class="spring" />
      {scene.zoom && (
        <button
          type="button"
          class="link"
          data-testid="reset-zoom"
          title={text.chart.resetTitle}
          onClick={() => session.setView({ from: null, to: null })}
        >
          {text.chart.resetZoom}
        </button>
      )}
      <span class="field">
        <span id="axes-label">{text.chart.axes}</span>
        <fieldset class="toggle" aria-labelledby="axes-label" data-testid="mode-toggle">
          {(["lanes", "merged"] as const).map((mode) => (
            <button
              key={mode}
              type="button"
              aria-pressed={scene.mode === mode}
              data-mode={mode}
              title={text.chart.modeTitles[mode]}
              onClick={() => setMode(mode)}
            >
              {text.chart.modes[mode]}
            </button>
          ))}
        </fieldset>
      </span>
      <label class="field" title={text.chart.yRangeTitle}>
        <span>{text.chart.yRange}</span>
        <select
          data-testid="y-range"
          value={view.y}
          onChange={(e) => session.setView({ y: e.currentTarget.value as YRange })}
        >
          {Y_RANGES.map((y) => (
            <option key={y} value={y}>
              {text.chart.yRanges[y]}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** Points in a segment from which on the chart shows them as a band. */
const CROWDED = 700;

function Legend({ scene }: { scene: Scene }) {
  const merged = scene.mode === "merged";
  const coloured = merged && scene.runs.length === 1;
  const old = scene.segments.some((s) => !s.current && s.n > 0);
  const curves = scene.segments.filter((s) => isOverlayRole(s.role) && ROLE_STYLE[s.role].shape === "curve");
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
            <LineSample of={role} />
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
  const overflow = scene.roles.includes("loss_scale") && overflowRuns(scene.segments).length > 0;
  return (
    <>
      {overflow && (
        <span data-testid="legend-item" data-role="overflow">
          <TickSample height={5} colour={coloured ? "var(--loss_scale)" : "currentColor"} />
          {text.chart.overflow}
        </span>
      )}
      {nonFiniteRoles(scene.segments).map((role) => {
        const own = scene.segments.filter((s) => s.role === role);
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
