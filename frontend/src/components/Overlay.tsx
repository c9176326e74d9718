import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Mark, windowAround } from "../chart/marks";
import { type CursorAt, type Layout, OverlayChart } from "../chart/overlay";
import { nonFiniteRoles, overflowRuns, type Plan } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { formatPosition, formatValue } from "../format";
import { type OverlayRole, ROLE_STYLE } from "../roles";
import type { Session } from "../session";
import { text } from "../text";
import { RestartIcon } from "./icons";
import { LineSample } from "./LineSample";
import { clippedSentence } from "./Notes";
import { px } from "./px";
import { Tooltip } from "./Tooltip";

interface Props {
  session: Session;
  scene: Scene;
  status: "loading" | "ready" | "error";
  onPlan: (plan: Plan) => void;
}

export function Overlay({ session, scene, status, onPlan }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<OverlayChart | null>(null);
  const [layout, setLayout] = useState<Layout | null>(null);
  const [cursor, setCursor] = useState<CursorAt | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });

  // In a crowd the curve under the pointer is lit. A redraw costs more than a move of the cursor, so
  // it waits until the pointer rests.
  const crowded = useRef(false);
  crowded.current = scene.runs.length > 6;
  const timer = useRef(0);
  const light = (run: string | null) => {
    window.clearTimeout(timer.current);
    if (!crowded.current && run !== null) return;
    timer.current = window.setTimeout(() => {
      if (session.state.hovered !== run) session.patch({ hovered: run });
    }, 60);
  };

  useLayoutEffect(() => {
    const el = host.current!;
    const overlay = new OverlayChart(el, {
      onZoom: ({ from, to }) => session.setView({ from, to }),
      onReset: () => session.setView({ from: null, to: null }),
      onLayout: (next) => {
        setLayout(next);
        onPlan(next.plan);
        session.setPlotPixels(Math.round(next.width * window.devicePixelRatio));
      },
      onCursor: (next) => {
        setCursor(next);
        light(next?.nearest ?? null);
      },
    });
    chart.current = overlay;
    const observer = new ResizeObserver(() => {
      const next = { width: el.clientWidth, height: el.clientHeight };
      setSize(next);
      overlay.resize(next.width, next.height);
    });
    observer.observe(el);
    return () => {
      observer.disconnect();
      overlay.destroy();
    };
  }, []);

  useEffect(() => chart.current?.show(scene), [scene]);

  const window_ = layout?.plan.window;
  const onKeyDown = (e: KeyboardEvent) => {
    const far = e.shiftKey ? 10 : 1;
    if (e.key === "ArrowLeft") chart.current?.stepCursor(-far);
    else if (e.key === "ArrowRight") chart.current?.stepCursor(far);
    else {
      // On its way up this key also resets the zoom.
      if (e.key === "Escape") chart.current?.hideCursor();
      return;
    }
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      class="overlay"
      data-testid="overlay"
      data-state={status}
      data-mode={scene.mode}
      data-from={window_?.from}
      data-to={window_?.to}
      data-zoomed={scene.zoom !== null}
      data-roles={scene.roles.join(" ")}
      data-runs={scene.runs.map((run) => run.run).join("\n")}
    >
      <div
        class="plot"
        ref={host}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move the cursor in it
        tabIndex={0}
        role="img"
        aria-label={summary(scene, layout?.plan ?? null)}
        onKeyDown={onKeyDown}
      />
      {layout && <Titles layout={layout} scene={scene} panel={size.width} />}
      {layout && <Pills layout={layout} scene={scene} session={session} />}
      {cursor && <Tooltip cursor={cursor} scene={scene} panel={size} />}
    </div>
  );
}

function summary(scene: Scene, plan: Plan | null): string {
  const shown = scene.runs.slice(0, 6);
  const values = shown.flatMap((run) => {
    const last = run.info.roles.loss?.last_value;
    if (last == null) return [];
    const value = typeof last === "number" ? formatValue(last, "loss") : last;
    return [text.chart.lastValue(run.run, text.role("loss"), value)];
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

function Titles({ layout, scene, panel }: { layout: Layout; scene: Scene; panel: number }) {
  const { plan, top, left, width, height, axes } = layout;
  const right = panel - left - width;
  const coloured = plan.mode === "merged" && scene.runs.length === 1;
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
        if (plan.mode === "lanes") {
          const aside = [
            logarithm(zone.role),
            zone.role === "loss_scale" && overflowRuns(scene.segments).length > 0
              ? text.chart.overflowTicks
              : "",
            // The loss has pills that say so.
            zone.role !== "loss" && nonFiniteRoles(scene.segments).includes(zone.role)
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
                <b>{text.axisTitle[zone.role]}</b> {aside.join(" · ")}
              </span>
              {zone.clipped && (
                <span
                  class="lane-title"
                  data-testid="clip-note"
                  data-role={zone.role}
                  style={{ right: px(right), top: y }}
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
              width: px(place.width - 4),
              top: px(top - 58),
              ...(coloured && { color: `var(--${zone.role})` }),
            }}
          >
            <LineSample of={zone.role} />
            <b>{text.axisTitle[zone.role]}</b>
            {logarithm(zone.role)}
          </span>
        );
      })}
    </>
  );
}

function logarithm(role: OverlayRole): string {
  const { transform } = ROLE_STYLE[role];
  return transform === "log10" ? text.chart.log10 : transform === "log2" ? text.chart.log2 : "";
}

/** Marks closer than this share a pill. */
const PILL = 22;

interface PillGroup {
  readonly at: number;
  readonly kind: Mark["kind"];
  readonly marks: Mark[];
}

/** The uppermost lane's title stands at the left of the pills' row. */
const TITLE = { lanes: 58, merged: 12 };

function pillGroups({ plan, marks, width }: Layout): PillGroup[] {
  const { from, to } = plan.window;
  const groups: PillGroup[] = [];
  for (const mark of marks) {
    const at = ((mark.x - from) / (to - from)) * width;
    if (at < -1 || at > width + 1) continue;
    const near = groups.find((g) => g.kind === mark.kind && at - g.at < PILL);
    if (near) near.marks.push(mark);
    else groups.push({ at, kind: mark.kind, marks: [mark] });
  }
  return spreadPills(groups, TITLE[plan.mode], width - 12);
}

function Pills({ layout, scene, session }: { layout: Layout; scene: Scene; session: Session }) {
  const { plan, left, top } = layout;
  return (
    <>
      {pillGroups(layout).map(({ at, kind, marks: own }) => {
        const title = own.map((m) => m.title).join("\n");
        return (
          <button
            key={`${kind}${own[0]!.run}${own[0]!.x}`}
            type="button"
            class={`mark ${kind}`}
            data-testid="mark"
            data-kind={kind}
            data-run={own[0]!.run}
            style={{ left: px(left + at), top: px(top - (plan.mode === "lanes" ? 22 : 20)) }}
            title={title}
            aria-label={title}
            onClick={() => session.setView(windowAround(own, scene.segments, scene.x))}
          >
            {kind === "restart" ? <RestartIcon /> : own.some((m) => m.label === "NaN") ? "NaN" : "Inf"}
            {own.length > 1 && <span>{own.length}</span>}
          </button>
        );
      })}
    </>
  );
}

/** Pills of different kinds at one place stand beside each other. */
function spreadPills(groups: readonly PillGroup[], first: number, last: number): PillGroup[] {
  let reach = first;
  return groups.map((g) => {
    const at = Math.max(Math.min(g.at, last), reach);
    reach = at + PILL + 8;
    return { ...g, at };
  });
}
