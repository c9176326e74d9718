import type { ComponentType } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { ChartLayout, CursorAt } from "../chart/chart";
import { ChartGroup } from "../chart/group";
import type { Plan } from "../chart/plan";
import type { Scene } from "../chart/scene";
import type { Session } from "../session";
import { ChartHost, useLight, useSize } from "./ChartHost";
import { Pills } from "./Pills";
import { Tooltip } from "./Tooltip";

export interface ChartProps {
  session: Session;
  scene: Scene;
  status: "loading" | "ready" | "error";
  onPlan: (plan: Plan) => void;
}

export interface TitlesProps {
  layout: ChartLayout;
  scene: Scene;
  panel: number;
  session: Session;
}

interface Props extends ChartProps {
  /** What a screen reader says of the chart. */
  label: (plan: Plan | null) => string;
  Titles: ComponentType<TitlesProps>;
  /** More of its state, as `stateOf`. */
  attributes: Record<`data-${string}`, string | number | undefined>;
}

/** One chart that fills the frame: cursor, zoom and marks go through all of its zones. */
export function SingleChart({ session, scene, status, onPlan, label, Titles, attributes }: Props) {
  const [layout, setLayout] = useState<ChartLayout | null>(null);
  const [cursor, setCursor] = useState<CursorAt | null>(null);
  const [size, setSize] = useSize();
  const group = useMemo(() => new ChartGroup(), []);
  const light = useLight(session, scene, group);
  const plan = layout?.plan ?? null;
  return (
    <div class="overlay" {...stateOf(scene, status, plan)} {...attributes}>
      <ChartHost
        session={session}
        scene={scene}
        group={group}
        label={label(plan)}
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
      {cursor && <Tooltip session={session} cursor={cursor} scene={scene} panel={size} />}
    </div>
  );
}

/** What a test, or a person who looks closer, can read of a chart. */
export function stateOf(scene: Scene, status: string, plan: Plan | null) {
  return {
    "data-testid": "overlay",
    "data-state": status,
    "data-from": plan?.window.from,
    "data-to": plan?.window.to,
    "data-zoomed": scene.zoom !== null,
    "data-x": scene.x,
    "data-log-x": plan?.x.log,
    "data-roles": scene.roles.join(" "),
    "data-runs": scene.runs.map((run) => run.run).join("\n"),
  };
}
