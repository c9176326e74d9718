import { useMemo, useRef, useState } from "preact/hooks";
import type { ChartLayout, CursorAt } from "../chart/chart";
import { ChartGroup } from "../chart/group";
import { loggedAt } from "../chart/nearest";
import type { Plan, Zone } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { seriesIndex } from "../chart/series";
import { formatValue } from "../format";
import type { ChartRole } from "../roles";
import type { Session } from "../session";
import { text } from "../text";
import { ChartHost, useLight } from "./ChartHost";
import { clippedSentence } from "./Notes";
import { summary } from "./Overlay";
import { Pills } from "./Pills";
import { Scale } from "./Scale";
import { type ChartProps, stateOf } from "./SingleChart";
import { Tooltip } from "./Tooltip";

interface Pointed {
  readonly role: ChartRole;
  /** In the grid, CSS px. */
  readonly cursor: CursorAt;
}

/** A panel a role; one cursor, one zoom and one tooltip for all of them. */
export function Stacked({ session, scene, status, onPlan }: ChartProps) {
  const grid = useRef<HTMLDivElement>(null);
  const group = useMemo(() => new ChartGroup(), []);
  const light = useLight(session, scene, group);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const plans = useRef(new Map<ChartRole, Plan>());
  const [lead, setLead] = useState<Plan | null>(null);
  const scenes = usePanelScenes(scene);
  const { columns } = session.state.view;

  const takeLayout = (role: ChartRole, layout: ChartLayout) => {
    plans.current.set(role, layout.plan);
    if (role !== scene.roles[0]) return;
    session.setPlotPixels(Math.round(layout.width * window.devicePixelRatio));
    setLead(layout.plan);
  };
  const told = useRef("");
  const tell = () => {
    const own = scene.roles.flatMap((role) => plans.current.get(role) ?? []);
    const first = own[0];
    if (!first) return;
    const zones = own.flatMap((plan) => plan.zones);
    const key = JSON.stringify(zones.map((z) => [z.role, z.clipped, z.nonPositive, z.shown]));
    if (key === told.current) return;
    told.current = key;
    onPlan({ ...first, zones });
  };
  return (
    <div class="stacked" {...stateOf(scene, status, lead)} data-mode="stacked" data-columns={columns}>
      <div class="panels" ref={grid} style={{ "--columns": Math.min(columns, scene.roles.length) }}>
        {scene.roles.map((role, i) => (
          <Panel
            key={role}
            session={session}
            scene={scenes[i]!}
            roles={scene.roles}
            group={group}
            at={pointed?.cursor.x ?? null}
            onLayout={(layout) => {
              takeLayout(role, layout);
              tell();
            }}
            onCursor={(cursor, host) => {
              setPointed(cursor && { role, cursor: inGrid(cursor, host, grid.current!) });
              light(cursor?.nearest ?? null);
            }}
          />
        ))}
        {pointed && (
          <Tooltip
            session={session}
            cursor={pointed.cursor}
            scene={scenes[scene.roles.indexOf(pointed.role)] ?? scene}
            panel={visibleOf(grid.current!)}
          />
        )}
      </div>
    </div>
  );
}

/** Kept from one drawing to the next: a panel whose scene is the same is not drawn again. */
function usePanelScenes(scene: Scene): readonly Scene[] {
  return useMemo(() => scene.roles.map((role) => ({ ...scene, roles: [role] })), [scene]);
}

function inGrid(cursor: CursorAt, host: HTMLElement, grid: HTMLElement): CursorAt {
  const [a, b] = [host.getBoundingClientRect(), grid.getBoundingClientRect()];
  return {
    ...cursor,
    left: cursor.left + a.left - b.left + grid.scrollLeft,
    top: cursor.top + a.top - b.top + grid.scrollTop,
  };
}

const visibleOf = (el: HTMLElement) => ({
  width: el.clientWidth,
  height: el.clientHeight,
  top: el.scrollTop,
});

interface PanelProps {
  session: Session;
  scene: Scene;
  /** Of all panels. */
  roles: Scene["roles"];
  group: ChartGroup;
  /** Where the cursor is, in whichever panel. */
  at: number | null;
  onLayout: (layout: ChartLayout) => void;
  onCursor: (cursor: CursorAt | null, host: HTMLElement) => void;
}

function Panel({ session, scene, roles, group, at, onLayout, onCursor }: PanelProps) {
  const host = useRef<HTMLDivElement>(null);
  const [layout, setLayout] = useState<ChartLayout | null>(null);
  const role = scene.roles[0]!;
  const zone = layout?.plan.zones[0];
  return (
    <section class="panel" data-testid="panel" data-role={role} aria-label={text.axisTitle[role]}>
      <header>
        <b data-testid="axis-title" data-role={role}>
          {text.axisTitle[role]}
        </b>
        <span class="unit" data-testid="unit">
          {unitsOf(scene, role)}
        </span>
        {zone && <Scale session={session} zone={zone} />}
        {zone && <Asides scene={scene} zone={zone} />}
        <span class="spring" />
        <Value session={session} scene={scene} role={role} at={at} />
      </header>
      <div class="panel-plot" ref={host}>
        <ChartHost
          session={session}
          scene={scene}
          group={group}
          label={summary(scene, layout?.plan ?? null)}
          onLayout={(next) => {
            setLayout(next);
            onLayout(next);
          }}
          onCursor={(cursor) => onCursor(cursor, host.current!)}
        />
        {layout && <Pills layout={layout} scene={scene} session={session} roles={roles} />}
      </div>
    </section>
  );
}

function unitsOf(scene: Scene, role: ChartRole): string {
  const units = new Set(
    seriesIndex(scene.segments)
      .role(role)
      .map((s) => s.unit),
  );
  return [...units].filter(Boolean).join(", ");
}

function Asides({ scene, zone }: { scene: Scene; zone: Zone }) {
  const index = seriesIndex(scene.segments);
  const notes = [
    zone.role === "loss_scale" && index.overflowRuns.length > 0 ? text.chart.overflowTicks : "",
    index.nonFiniteRoles.includes(zone.role) ? text.chart.nonFiniteTicks : "",
    zone.clipped ? clippedSentence(zone.clipped, zone.role) : "",
  ].filter(Boolean);
  if (notes.length === 0) return null;
  const said = notes.join(" · ");
  return (
    <span
      class="unit cut"
      data-testid={zone.clipped ? "clip-note" : "panel-note"}
      data-role={zone.role}
      title={said}
    >
      {said}
    </span>
  );
}

/** The lit run's value at the cursor; without a cursor its last one. */
function Value({
  session,
  scene,
  role,
  at,
}: {
  session: Session;
  scene: Scene;
  role: ChartRole;
  at: number | null;
}) {
  const { hovered, selectedFinding } = session.state;
  const lit = hovered ?? selectedFinding?.run ?? null;
  const run = scene.runs.length === 1 ? scene.runs[0] : scene.runs.find((r) => r.run === lit);
  if (!run) return null;
  const last = run.info.roles[role]?.last_value;
  const value = at === null ? last : loggedAt(seriesIndex(scene.segments).of(role, run.run), at);
  if (value == null) return null;
  return (
    <span class="panel-value number" data-testid="panel-value" data-role={role}>
      <i class="swatch" style={{ background: run.colour }} />
      {typeof value === "number" ? formatValue(value, role) : value}
    </span>
  );
}
