import type { JsonNumber } from "../api";
import type { DrawnRun, Scene } from "../chart/scene";
import { type Compared, settingRows } from "../compare";
import { formatCount, formatRate, formatSignificant } from "../format";
import { text } from "../text";
import { problemText } from "./CompareVerdicts";

interface Props {
  scene: Scene;
  /** Without the baseline. */
  runs: readonly DrawnRun[];
  compared: ReadonlyMap<string, Compared>;
}

const answersOf = (runs: readonly DrawnRun[], compared: ReadonlyMap<string, Compared>) =>
  runs.map((run) => compared.get(run.run)?.answer ?? null);

/** How many settings differ; null while nothing is known. */
export function countSettings(
  runs: readonly DrawnRun[],
  compared: ReadonlyMap<string, Compared>,
): number | null {
  return compared.size > 0 ? settingRows(answersOf(runs, compared)).length : null;
}

/** What else differs: learning rates, step times, and what the manifests say. */
export function CompareSettings({ scene, runs, compared }: Props) {
  const answers = answersOf(runs, compared);
  const baseline = scene.runs.find((run) => run.run === scene.comparing?.baseline);
  const speed = answers.find((a) => a?.seconds_per_step)?.seconds_per_step?.baseline;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls where settings are many
    <section class="settings" tabIndex={0} aria-label={text.compare.settingsTitle}>
      <table data-testid="compare-settings">
        <thead>
          <tr>
            <th scope="col">{text.compare.setting}</th>
            {baseline && <Name run={baseline} />}
            {runs.map((run) => (
              <Name key={run.run} run={run} />
            ))}
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">{text.compare.verdict}</th>
            <td />
            {runs.map((run) => (
              <td key={run.run}>
                <Said compared={compared.get(run.run)} />
              </td>
            ))}
          </tr>
          {answers.some((a) => a?.lr) && (
            <tr>
              <th scope="row">{text.compare.learningRate}</th>
              <td />
              {answers.map((a, i) => (
                <td key={runs[i]!.run}>
                  {a?.lr &&
                    (a.lr.same
                      ? text.compare.lrSame
                      : text.compare.lrDiffers(
                          rate(a.lr.run),
                          rate(a.lr.baseline),
                          formatCount(a.lr.first_step ?? 0),
                        ))}
                </td>
              ))}
            </tr>
          )}
          {speed !== undefined && (
            <tr>
              <th scope="row">{text.compare.stepTime}</th>
              <td>{formatSignificant(speed, 3)}</td>
              {answers.map((a, i) => (
                <td key={runs[i]!.run}>
                  {a?.seconds_per_step && formatSignificant(a.seconds_per_step.run, 3)}
                </td>
              ))}
            </tr>
          )}
          {settingRows(answers).map((row) => (
            <tr key={row.name}>
              <th scope="row">
                <code>{row.name}</code>
              </th>
              <td>{said(row.baseline)}</td>
              {row.values.map((value, i) => (
                <td key={runs[i]!.run} class={value === undefined ? "as-baseline" : ""}>
                  {said(value === undefined ? row.baseline : value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** In full: the cells above have room for a few lines. */
function Said({ compared }: { compared: Compared | undefined }) {
  if (compared?.problem) return <>{problemText(compared)}</>;
  const { message, notes = [] } = compared?.answer ?? {};
  return (
    <>
      {message}
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
    </>
  );
}

const Name = ({ run }: { run: DrawnRun }) => (
  <th scope="col" title={run.run}>
    <i class="swatch" style={{ background: run.colour }} />
    {run.label}
  </th>
);

const rate = (v: JsonNumber): string =>
  typeof v === "number" ? formatRate(v) : (v ?? text.compare.notGiven);

function said(value: unknown): string {
  if (value === null || value === undefined) return text.compare.notGiven;
  return typeof value === "string" ? value : JSON.stringify(value);
}
