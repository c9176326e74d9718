/** What was logged where the cursor is, by all drawn runs: what the tooltip shows the nearest of. */
import { type Reading, readAt } from "./chart/nearest";
import type { Plan } from "./chart/plan";
import type { Scene } from "./chart/scene";
import { seriesIndex } from "./chart/series";
import type { ChartRole, XAxis } from "./roles";

export interface ValueRow {
  readonly run: string;
  /** Null where the run logged nothing there: it had not begun, or had ended. */
  readonly reading: Reading | null;
}

/** As a part of the window: how far from a run's points the cursor still counts as at them. */
const REACH = 0.01;

/** A row a run and superseded branch, in the order of the runs. Without a position: the last values in the window. */
export function valuesAt(
  scene: Pick<Scene, "segments" | "runs" | "roles">,
  { x: scale, window }: Pick<Plan, "x" | "window">,
  x: number | null,
): ValueRow[] {
  const reach = x === null ? 0 : Math.abs(scale.at(scale.fraction(x) + REACH) - x);
  return scene.runs.flatMap(({ run }): ValueRow[] => {
    const at = x ?? lastOf(scene, run, window.to);
    const rows = at === null ? [] : readAt(scene.segments, [run], at, reach, scene.roles).rows;
    const shown = x === null ? rows.filter((row) => !row.superseded) : rows;
    return shown.length > 0 ? shown.map((reading) => ({ run, reading })) : [{ run, reading: null }];
  });
}

/** Where a run's newest point lies that is not beyond `most`. */
function lastOf(
  { segments, roles }: Pick<Scene, "segments" | "roles">,
  run: string,
  most: number,
): number | null {
  const index = seriesIndex(segments);
  let last: number | null = null;
  for (const role of roles) {
    for (const s of index.of(role, run)) {
      if (!s.current) continue;
      let i = s.n - 1;
      while (i >= 0 && s.x[i]! > most) i--;
      if (i >= 0 && (last === null || s.x[i]! > last)) last = s.x[i]!;
    }
  }
  return last;
}

/** The shortest decimal that is the same single-precision number: 0.1, not 0.10000000149011612. */
export function exactly(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return String(short);
  }
  return String(Number(value.toPrecision(9)));
}

const position = (x: number, axis: XAxis): string =>
  axis === "wall" ? new Date(x * 1000).toISOString() : String(x);

/** Tab-separated, as a spreadsheet takes it; values as they were logged. */
export function valuesAsText(rows: readonly ValueRow[], roles: readonly ChartRole[], axis: XAxis): string {
  const superseded = rows.some(({ reading }) => reading?.superseded);
  const lines = rows.map(({ run, reading }) => [
    run.replace(/[\t\r\n]/g, " "),
    ...(superseded ? [reading ? String(!reading.superseded) : ""] : []),
    reading ? position(reading.x, axis) : "",
    ...roles.map((role) => {
      const cell = reading?.cells[role];
      return cell ? exactly(cell.value) : "";
    }),
  ]);
  return [["run", ...(superseded ? ["current"] : []), axis, ...roles], ...lines]
    .map((line) => `${line.join("\t")}\n`)
    .join("");
}
