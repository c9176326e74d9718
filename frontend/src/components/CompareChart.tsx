import type { Zone } from "../chart/plan";
import type { Scene } from "../chart/scene";
import type { LoggedRole } from "../roles";
import type { Session } from "../session";
import { text } from "../text";
import { clippedSentence } from "./Notes";
import { px } from "./px";
import { Scale } from "./Scale";
import { type ChartProps, SingleChart, type TitlesProps } from "./SingleChart";

export function CompareChart(props: ChartProps) {
  const { scene } = props;
  const { comparing } = scene;
  return (
    <SingleChart
      {...props}
      label={() => summary(scene)}
      Titles={Titles}
      attributes={{
        "data-mode": "compare",
        "data-baseline": comparing?.baseline,
        "data-metric": comparing?.role,
        "data-tolerance": comparing?.tolerance,
        "data-absolute": comparing?.absolute,
      }}
    />
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

function Titles({ layout, scene, panel, session }: TitlesProps) {
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
