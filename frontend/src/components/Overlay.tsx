import { coloursAreRoles } from "../chart/canvas";
import { nonFiniteRoles, type Plan } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { seriesIndex } from "../chart/series";
import { formatPosition, formatValue } from "../format";
import { text } from "../text";
import { LineSample } from "./LineSample";
import { clippedSentence } from "./Notes";
import { px } from "./px";
import { Scale } from "./Scale";
import { type ChartProps, SingleChart, type TitlesProps } from "./SingleChart";

export function Overlay(props: ChartProps) {
  const { scene } = props;
  return (
    <SingleChart
      {...props}
      label={(plan) => summary(scene, plan)}
      Titles={Titles}
      attributes={{ "data-mode": scene.layout }}
    />
  );
}

export function summary(scene: Scene, plan: Plan | null): string {
  const shown = scene.runs.slice(0, 6);
  const lead = scene.roles[0];
  const values = shown.flatMap((run) => {
    const last = lead && run.info.roles[lead]?.last_value;
    if (last == null || !lead) return [];
    const value = typeof last === "number" ? formatValue(last, lead) : last;
    return [text.chart.lastValue(run.run, text.role(lead), value)];
  });
  return `${text.chart.summary(
    text.list(shown.map((r) => r.run)) +
      (scene.runs.length > shown.length ? ` +${scene.runs.length - shown.length}` : ""),
    text.list(scene.roles.map(text.role)),
    text.x.names[scene.x],
    plan ? formatPosition(plan.window.from, scene.x) : "",
    plan ? formatPosition(plan.window.to, scene.x) : "",
    values.join(" "),
  )} ${text.chart.help}`;
}

function Titles({ layout, scene, panel, session }: TitlesProps) {
  const { plan, top, left, width, height, axes } = layout;
  const right = panel - left - width;
  const coloured = coloursAreRoles(scene);
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
        if (plan.layout !== "merged") {
          const aside = [
            zone.role === "loss_scale" && seriesIndex(scene.segments).overflowRuns.length > 0
              ? text.chart.overflowTicks
              : "",
            // The loss has pills that say so.
            zone.role !== "loss" && nonFiniteRoles(scene).includes(zone.role)
              ? text.chart.nonFiniteTicks
              : "",
          ].filter(Boolean);
          const y = px(top + zone.band.top - 21);
          return (
            <span key={zone.role}>
              <span
                class="lane-title"
                data-testid="axis-title"
                data-role={zone.role}
                style={{ left: px(left + 6), top: y }}
              >
                <b>{text.axisTitle[zone.role]}</b> <Scale session={session} zone={zone} />
                {aside.length > 0 && ` · ${aside.join(" · ")}`}
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
        }
        const place = axes.find((a) => a.role === zone.role)!;
        return (
          <span
            key={zone.role}
            class={`merged-title on-${place.side}`}
            data-testid="axis-title"
            data-role={zone.role}
            style={{
              left: px(place.left + (place.side === "left" ? 0 : 4)),
              // On the right it may reach up to where the next one begins: four characters of Chinese do.
              width: px(place.width - (place.side === "left" ? 4 : 0)),
              top: px(top - 58),
              ...(coloured && { color: `var(--${zone.role})` }),
            }}
          >
            <LineSample of={zone.role} />
            <b>{text.axisTitle[zone.role]}</b>
            <Scale session={session} zone={zone} />
          </span>
        );
      })}
    </>
  );
}
