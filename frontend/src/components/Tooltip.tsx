import { useLayoutEffect, useRef } from "preact/hooks";
import type { CursorAt } from "../chart/chart";
import { countRuns } from "../chart/nearest";
import type { Scene } from "../chart/scene";
import { formatPosition, formatValue } from "../format";
import { middleEllipsis } from "../names";
import type { Session } from "../session";
import { useStore } from "../store";
import { text } from "../text";

const MOST_ROWS = 6;
const AWAY = 18;

/**
 * The table beside the cursor. It hangs in the panel, not in the canvas, and always stands to one
 * side of the cursor line, so it is neither clipped nor on top of the point it speaks of.
 */
export function Tooltip({
  session,
  cursor,
  scene,
  panel,
}: {
  session: Session;
  cursor: CursorAt;
  scene: Scene;
  /** What of the container is seen, CSS px. */
  panel: { readonly width: number; readonly height: number; readonly top?: number };
}) {
  const box = useRef<HTMLDivElement>(null);
  const { pinned } = useStore(session.pointed);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el) return;
    const { offsetWidth: w, offsetHeight: h } = el;
    const leftRoom = cursor.left - AWAY;
    const rightRoom = panel.width - cursor.left - AWAY;
    const onLeft = leftRoom >= w + 4 || leftRoom > rightRoom;
    const left = onLeft ? cursor.left - AWAY - w : cursor.left + AWAY;
    const first = (panel.top ?? 0) + 4;
    const top = cursor.top - h - 12 < first ? cursor.top + 16 : cursor.top - h - 12;
    el.style.left = `${Math.round(Math.max(4, Math.min(panel.width - w - 4, left)))}px`;
    el.style.top = `${Math.round(Math.max(first, Math.min((panel.top ?? 0) + panel.height - h - 4, top)))}px`;
  });
  const { rows, ended } = cursor.readings;
  if (rows.length === 0) return null;
  const shown = [...rows.slice(0, MOST_ROWS)].sort((a, b) => Number(a.superseded) - Number(b.superseded));
  const lead = rows[0]!;
  const pixel = (scene.zoom ? scene.zoom.to - scene.zoom.from : Number.POSITIVE_INFINITY) / 4000;
  const apart = shown.some((row) => Math.abs(row.x - lead.x) > Math.min(pixel, 0.5));
  const foot = [
    countRuns(rows) > countRuns(shown) ? text.tooltip.nearest(countRuns(shown), countRuns(rows)) : "",
    ended > 0 ? text.tooltip.ended(ended) : "",
    pinned ? text.tooltip.pinned : "",
  ].filter(Boolean);
  const roles = scene.roles.filter((role) => rows.some((row) => row.cells[role]));
  // In a panel of its own the one metric is named once, above its values.
  const alone = scene.layout === "panel" ? (scene.roles[0] ?? null) : null;
  return (
    <div
      class={pinned ? "tooltip pinned" : "tooltip"}
      ref={box}
      role="status"
      data-testid="tooltip"
      style={{ maxWidth: `${Math.max(180, Math.max(cursor.left, panel.width - cursor.left) - AWAY - 8)}px` }}
    >
      <div class="tooltip-head">
        <span>
          {text.x.caption[scene.x]} {formatPosition(lead.x, scene.x)}
        </span>
        <span>{alone ? text.axisTitle[alone] : text.tooltip.logged}</span>
      </div>
      <table>
        <thead hidden={alone !== null}>
          <tr>
            <th>{text.tooltip.run}</th>
            {apart && <th class="right">{text.x.caption[scene.x]}</th>}
            {roles.map((role) => (
              <th key={role} class="right">
                {text.axisTitle[role]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => {
            const run = scene.runs.find((r) => r.run === row.run);
            const label = scene.runs.length > 1 ? (run?.label ?? row.run) : row.run;
            return (
              <tr
                key={`${row.run}${row.superseded}`}
                class={row.superseded ? "old" : row === lead ? "lead" : ""}
                data-testid="tooltip-row"
                data-run={row.run}
                data-superseded={row.superseded}
              >
                <td>
                  <i class="swatch" style={{ background: run?.colour }} />
                  {middleEllipsis(label, 26)}
                  {row.superseded && `, ${text.tooltip.superseded}`}
                </td>
                {apart && <td class="right number">{formatPosition(row.x, scene.x)}</td>}
                {roles.map((role) => {
                  const cell = row.cells[role];
                  return (
                    <td
                      key={role}
                      class={cell && !Number.isFinite(cell.value) ? "right number bad" : "right number"}
                      data-role={role}
                    >
                      {cell ? formatValue(cell.value, role) : text.tooltip.notLogged}
                    </td>
                  );
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
      {foot.length > 0 && <div class="tooltip-foot">{foot.join(" · ")}</div>}
    </div>
  );
}
