import { useMemo, useState } from "preact/hooks";
import type { ChartLayout, CursorAt } from "../chart/chart";
import { ChartGroup } from "../chart/group";
import type { Zone } from "../chart/plan";
import type { Scene } from "../chart/scene";
import type { LoggedRole } from "../roles";
import type { Session } from "../session";
import { text } from "../text";
import { ChartHost, useLight, useSize } from "./ChartHost";
import { clippedSentence } from "./Notes";
import { type ChartProps, stateOf } from "./Overlay";
import { Pills } from "./Pills";
import { px } from "./px";
import { Scale } from "./Scale";
import { Tooltip } from "./Tooltip";

/** One chart of three zones: cursor, zoom and marks go through all of them. */
export function CompareChart({ session, scene, status, onPlan }: ChartProps) {
  const [layout, setLayout] = useState<ChartLayout | null>(null);
  const [cursor, setCursor] = useState<CursorAt | null>(null);
  const [size, setSize] = useSize();
  const group = useMemo(() => new ChartGroup(), []);
  const light = useLight(session, scene, group);
  const { comparing } = scene;
  return (
    <div
      class="overlay"
      {...stateOf(scene, status, layout?.plan ?? null)}
      data-mode="compare"
      data-baseline={comparing?.baseline}
      data-metric={comparing?.role}
      data-tolerance={comparing?.tolerance}
    >
      <ChartHost
        session={session}
        scene={scene}
        group={group}
        label={summary(scene)}
        onSize={setSize}
        onLayout={(next) => {
          setLayout(next);
          onPlan(next.plan);
          session.setPlotPixels(Math.round(next.width * window.devicePixelRatio));
        }}
        onCursor={(next) => {
          setCursor(next);
          light(next?.nearest ?? null);
        }}
      />
      {layout && <Titles layout={layout} scene={scene} panel={size.width} session={session} />}
      {layout && <Pills layout={layout} scene={scene} session={session} roles={scene.roles} />}
      {cursor && <Tooltip cursor={cursor} scene={scene} panel={size} />}
    </div>
  );
}

function summary({ comparing, runs }: Scene): string {
  if (!comparing) return "";
  const others = runs.filter((run) => run.run !== comparing.baseline).map((run) => run.run);
  const shown = others.length > 6 ? [...others.slice(0, 6), `+${others.length - 6}`] : others;
  return `${text.compare.summary(text.role(comparing.role), text.list(shown), comparing.baseline)} ${text.chart.help}`;
}

/** Roles of which more is worse, whoever looks. */
const WORSE_ABOVE: ReadonlySet<LoggedRole> = new Set(["loss", "eval_loss", "step_time", "kl"]);

function Titles({
  layout,
  scene,
  panel,
  session,
}: {
  layout: ChartLayout;
  scene: Scene;
  panel: number;
  session: Session;
}) {
  const { plan, top, left, width, height } = layout;
  const right = panel - left - width;
  const metric = scene.comparing?.role ?? "loss";
  return (
    <>
      <span
        class="x-title"
        data-testid="x-axis-title"
        style={{ top: px(top + height + 22), right: px(right) }}
      >
        {text.x.caption[scene.x]}
      </span>
      {plan.zones.map((zone) => {
        const y = px(top + zone.band.top - 21);
        return (
          <span key={zone.role}>
            <span
              class="lane-title"
              data-testid="axis-title"
              data-role={zone.role}
              style={{ left: px(left + 6), top: y }}
            >
              <Title zone={zone} metric={metric} session={session} />
            </span>
            {zone.clipped && (
              <span
                class={zone === plan.zones[0] ? "lane-title inside" : "lane-title"}
                data-testid="clip-note"
                data-role={zone.role}
                style={{ right: px(right), top: zone === plan.zones[0] ? px(top + 2) : y }}
              >
                {clippedSentence(zone.clipped, zone.role)}
              </span>
            )}
          </span>
        );
      })}
    </>
  );
}

function Title({ zone, metric, session }: { zone: Zone; metric: LoggedRole; session: Session }) {
  switch (zone.role) {
    case "difference": {
      const note = [text.compare.deltaNote, WORSE_ABOVE.has(metric) && text.compare.worseAbove];
      return (
        <>
          <b>{text.compare.delta(text.axisTitle[metric])}</b>&ensp;{note.filter(Boolean).join(" · ")}
        </>
      );
    }
    case "relative_error":
      return (
        <>
          <b>{text.axisTitle.relative_error}</b>&ensp;{text.compare.errorNote}
        </>
      );
    default:
      return (
        <>
          <b>{text.axisTitle[zone.role]}</b> <Scale session={session} zone={zone} />
        </>
      );
  }
}
