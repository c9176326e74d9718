import { useState } from "preact/hooks";
import type { Plan } from "../chart/plan";
import type { Scene } from "../chart/scene";
import { formatCount, formatPosition, formatValue } from "../format";
import type { ChartRole } from "../roles";
import type { Session } from "../session";
import { useStore } from "../store";
import { text } from "../text";
import { type ValueRow, valuesAsText, valuesAt } from "../values";
import { BelowToggle } from "./BelowToggle";
import { CopyButton } from "./CopyButton";

/** Rows at first; all of a thousand runs may be drawn. */
const MOST_ROWS = 200;

interface Props {
  session: Session;
  scene: Scene;
  plan: Plan | null;
}

/** Under the chart: every drawn run's values at the cursor, to be read and copied. */
export function Values({ session, scene, plan }: Props) {
  const { x, pinned } = useStore(session.pointed);
  const rows = plan ? valuesAt(scene, plan, x) : [];
  return (
    <>
      <div class="findings-head">
        <BelowToggle session={session} />
        <span class="values-where" data-testid="values-where" data-pinned={pinned}>
          {x === null
            ? text.values.last
            : text.values.at(`${text.x.caption[scene.x]} ${formatPosition(x, scene.x)}`)}
        </span>
        <span class="values-hint">{pinned ? text.tooltip.pinned : text.values.hint}</span>
        <span class="spring" />
        <CopyButton
          what={() => valuesAsText(rows, scene.roles, scene.x)}
          copied={text.values.copied}
          title={text.values.copyTitle}
          testid="values-copy"
          disabled={rows.length === 0}
        >
          {text.values.copy}
        </CopyButton>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls where runs are many */}
      <section class="findings-body values" aria-label={text.values.title} tabIndex={0}>
        <Table session={session} scene={scene} rows={rows} />
      </section>
    </>
  );
}

function Table({ session, scene, rows }: { session: Session; scene: Scene; rows: readonly ValueRow[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? rows : rows.slice(0, MOST_ROWS);
  const runs = new Map(scene.runs.map((run) => [run.run, run]));
  return (
    <>
      <table data-testid="values">
        <thead>
          <tr>
            <th scope="col">{text.tooltip.run}</th>
            <th scope="col" class="right">
              {text.x.caption[scene.x]}
            </th>
            {scene.roles.map((role) => (
              <th key={role} scope="col" class="right">
                {text.axisTitle[role]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(({ run, reading }) => (
            <tr
              key={`${run}\n${reading?.superseded ?? false}`}
              class={reading?.superseded ? "old" : ""}
              data-testid="values-row"
              data-run={run}
              data-superseded={reading?.superseded ?? false}
              onMouseEnter={() => session.patch({ hovered: run })}
              onMouseLeave={() => session.patch({ hovered: null })}
            >
              <th scope="row" title={run}>
                <i class="swatch" style={{ background: runs.get(run)?.colour }} />
                {runs.get(run)?.label ?? run}
                {reading?.superseded && `, ${text.tooltip.superseded}`}
              </th>
              <td class="right number">
                {reading ? formatPosition(reading.x, scene.x) : text.tooltip.notLogged}
              </td>
              {scene.roles.map((role) => (
                <Cell key={role} role={role} value={reading?.cells[role]?.value} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < rows.length && (
        <button type="button" class="link more" onClick={() => setAll(true)}>
          {text.values.more(formatCount(rows.length - shown.length))}
        </button>
      )}
    </>
  );
}

function Cell({ role, value }: { role: ChartRole; value: number | undefined }) {
  const bad = value !== undefined && !Number.isFinite(value);
  return (
    <td class={bad ? "right number bad" : "right number"} data-role={role}>
      {value === undefined ? text.tooltip.notLogged : formatValue(value, role)}
    </td>
  );
}
