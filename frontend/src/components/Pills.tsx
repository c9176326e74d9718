import { SEVERITIES, type Severity } from "../api";
import type { ChartLayout } from "../chart/chart";
import { placeInRow } from "../chart/labels";
import { type Mark, type MarkKind, windowAround } from "../chart/marks";
import type { Layout, Scene } from "../chart/scene";
import type { Session } from "../session";
import { RestartIcon } from "./icons";
import { px } from "./px";

/** Marks closer than this share a pill. */
const NEAR = 20;
const GAP = 3;

interface PillGroup {
  readonly at: number;
  readonly marks: Mark[];
}

/** The uppermost lane's title stands at the left of the pills' row. */
const TITLE: Record<Layout, number> = { lanes: 92, merged: 12, panel: 12 };
/** In a comparison the uppermost zone may be of any metric. */
const COMPARED_TITLE = 136;
const ABOVE: Record<Layout, number> = { lanes: 22, merged: 20, panel: 18 };

const SIGNS: Record<Exclude<MarkKind, "restart" | "nonfinite">, string> = {
  diverged: "✕",
  parted: "◆",
  spike: "▲",
  alert: "■",
};

/** What happened on the curves, in a row above them: each a button that leads to it. */
export function Pills({
  layout,
  scene,
  session,
  roles,
}: {
  layout: ChartLayout;
  scene: Scene;
  session: Session;
  /** All that have a place of their own, the first of them also for what belongs to none. */
  roles: Scene["roles"];
}) {
  const { plan, left, top, marks } = layout;
  const here = plan.layout === "panel" ? marks.filter((m) => panelOf(m, roles) === scene.roles[0]) : marks;
  const first = scene.comparing ? COMPARED_TITLE : TITLE[plan.layout];
  return (
    <>
      {pillGroups(here, layout, first).map(({ at, marks: own }) => {
        const title = own.map((m) => m.title).join("\n");
        const worst = worstOf(own);
        const finding = own.length === 1 ? worst.finding : null;
        const many = own.length > 1 ? String(own.length) : "";
        const sign = signOf(worst, own);
        return (
          <button
            key={`${worst.kind}${worst.run}${worst.x}`}
            type="button"
            class={`mark ${worst.severity}`}
            data-testid="mark"
            data-kind={worst.kind}
            data-severity={worst.severity}
            data-run={worst.run}
            aria-pressed={finding !== null && session.state.selectedFinding === finding}
            style={{ left: px(left + at), top: px(top - ABOVE[plan.layout]) }}
            title={title}
            // Whoever speaks to a screen says what stands on it.
            aria-label={`${[sign, many].filter(Boolean).join(" ")}: ${title}`}
            onMouseEnter={() => session.patch({ hovered: worst.run })}
            onMouseLeave={() => session.patch({ hovered: null })}
            onClick={() =>
              finding
                ? session.selectFinding(finding)
                : session.setView(windowAround(own, scene.segments, scene.x))
            }
          >
            {sign ? <span>{sign}</span> : <RestartIcon />} {many && <span>{many}</span>}
          </button>
        );
      })}
    </>
  );
}

/** Null: it has an icon. */
function signOf(of: Mark, all: readonly Mark[]): string | null {
  if (of.kind === "restart") return null;
  if (of.kind === "nonfinite") return all.some((m) => m.label === "NaN") ? "NaN" : "Inf";
  return SIGNS[of.kind];
}

const panelOf = (mark: Mark, roles: Scene["roles"]) =>
  mark.role !== null && roles.includes(mark.role) ? mark.role : roles[0];

const rank = (severity: Severity): number => SEVERITIES.indexOf(severity);

const worstOf = (marks: readonly Mark[]): Mark =>
  marks.reduce((worst, m) => (rank(m.severity) < rank(worst.severity) ? m : worst));

function pillGroups(marks: readonly Mark[], { plan, width }: ChartLayout, first: number): PillGroup[] {
  const placed = marks.flatMap((mark) => {
    const at = plan.x.fraction(mark.x) * width;
    return at >= -1 && at <= width + 1 ? [{ at, mark }] : [];
  });
  const apart = grouped(placed, (a, b) => a.kind === b.kind);
  // Where the row is too short for a pill of each kind, those at one place share one.
  const taken = apart.reduce((sum, g) => sum + widthOf(g.marks) + GAP, 0);
  const groups = taken < (width - first) / 2 ? apart : grouped(placed, () => true);
  const wanted = groups.map((g) => ({ at: g.at, width: widthOf(g.marks) }));
  const places = placeInRow(wanted, GAP, first, width - 8);
  return groups.map((g, i) => ({ ...g, at: places[i]! }));
}

/** CSS px: a sign in a circle, or a word, and a number where there are more. */
const widthOf = (marks: readonly Mark[]): number =>
  (worstOf(marks).kind === "nonfinite" ? 30 : 16) + (marks.length > 1 ? 10 : 0);

function grouped(
  placed: readonly { readonly at: number; readonly mark: Mark }[],
  alike: (a: Mark, b: Mark) => boolean,
): PillGroup[] {
  const groups: PillGroup[] = [];
  for (const { at, mark } of placed) {
    const near = groups.find((g) => at - g.at < NEAR && alike(g.marks[0]!, mark));
    if (near) near.marks.push(mark);
    else groups.push({ at, marks: [mark] });
  }
  return groups;
}
