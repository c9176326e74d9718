import type { ChartLayout } from "../chart/chart";
import { type Mark, windowAround } from "../chart/marks";
import type { Layout, Scene } from "../chart/scene";
import type { Session } from "../session";
import { RestartIcon } from "./icons";
import { px } from "./px";

/** Marks closer than this share a pill. */
const PILL = 22;

interface PillGroup {
  readonly at: number;
  readonly kind: Mark["kind"];
  readonly marks: Mark[];
}

/** The uppermost lane's title stands at the left of the pills' row. */
const TITLE: Record<Layout, number> = { lanes: 58, merged: 12, panel: 12 };
const ABOVE: Record<Layout, number> = { lanes: 22, merged: 20, panel: 18 };

/** What happened on the curves, in a row above them: each a button that leads to it. */
export function Pills({ layout, scene, session }: { layout: ChartLayout; scene: Scene; session: Session }) {
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
            style={{ left: px(left + at), top: px(top - ABOVE[plan.layout]) }}
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

function pillGroups({ plan, marks, width }: ChartLayout): PillGroup[] {
  const groups: PillGroup[] = [];
  for (const mark of marks) {
    const at = plan.x.fraction(mark.x) * width;
    if (!(at >= -1 && at <= width + 1)) continue;
    const near = groups.find((g) => g.kind === mark.kind && at - g.at < PILL);
    if (near) near.marks.push(mark);
    else groups.push({ at, kind: mark.kind, marks: [mark] });
  }
  return spreadPills(groups, TITLE[plan.layout], width - 12);
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
