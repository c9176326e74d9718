import type { LayoutChart, LayoutPreview } from "../api";
import { saveFile } from "../hand-over";
import { sayable } from "../names";
import type { Session } from "../session";
import { text } from "../text";
import { CopyButton } from "./CopyButton";
import { Dialog } from "./Dialog";
import { useAnswer } from "./use-answer";

/** What a layout of Custom Scalars for these runs would show, to be taken along as a file or a command. */
export function LayoutDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  const asked = useAnswer((signal) => session.api.layout(signal));
  const state = asked === null ? "loading" : "answer" in asked ? "ready" : "error";
  return (
    <Dialog name="layout" title={text.layout.title} close={text.layout.close} state={state} onClose={onClose}>
      {() => (
        <>
          <p>{text.layout.what}</p>
          {asked === null && <p role="status">{text.layout.loading}</p>}
          {asked && "error" in asked && (
            <p role="alert" data-testid="layout-problem">
              {asked.error}: {asked.hint}
            </p>
          )}
          {asked && "answer" in asked && (
            <Preview preview={asked.answer} logdir={session.state.answer?.searched.logdir ?? ""} />
          )}
        </>
      )}
    </Dialog>
  );
}

function Preview({ preview, logdir }: { preview: LayoutPreview; logdir: string }) {
  const { file, command, categories } = preview;
  return (
    <>
      <p>
        <button
          type="button"
          class="button"
          data-testid="layout-download"
          onClick={() => saveFile(file.name, new Blob([bytesOf(file.base64)]))}
        >
          {text.layout.download}
        </button>{" "}
        {text.layout.where(logdir)}
      </p>
      {command !== null && (
        <>
          <p>{text.layout.or}</p>
          <pre class="snippet">
            <code data-testid="layout-command">{command}</code>
            <CopyButton what={() => command} copied={text.layout.copied} testid="layout-copy">
              {text.layout.copy}
            </CopyButton>
          </pre>
        </>
      )}
      {categories.map((category) => (
        <section key={category.title} data-testid="layout-category" data-title={category.title}>
          <h3>
            {category.title} <span>{text.layout.charts(category.charts.length)}</span>
          </h3>
          {category.charts.map((chart) => (
            <Chart key={chart.title} chart={chart} />
          ))}
        </section>
      ))}
    </>
  );
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

/** Rows of a chart; a logdir may hold thousands of runs. */
const MOST_ROWS = 100;

function Chart({ chart }: { chart: LayoutChart }) {
  const runs = Object.entries(chart.runs);
  const strangers = Object.entries(chart.strangers);
  const tags = [...new Set(runs.flatMap(([, own]) => own))];
  return (
    <details class="layout-chart" data-testid="layout-chart" data-title={chart.title}>
      <summary>
        <b>{chart.title}</b>
        <span class="aside-text">
          {text.layout.runs(runs.length)}
          {chart.kind === "margin" && ` · ${text.layout.margin}`}
        </span>
        <span class="layout-tags" title={tags.join("\n")}>
          {tags.join(" · ")}
        </span>
      </summary>
      {runs.length === 0 ? <p>{text.layout.none}</p> : <Rows rows={runs} testid="layout-run" />}
      {strangers.length > 0 && (
        <>
          <p class="warning-text">! {text.layout.strangers(strangers.length)}</p>
          <Rows rows={strangers} testid="layout-stranger" />
        </>
      )}
    </details>
  );
}

function Rows({ rows, testid }: { rows: readonly [string, readonly string[]][]; testid: string }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{text.layout.run}</th>
          <th scope="col">{text.layout.tags}</th>
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, MOST_ROWS).map(([run, tags]) => (
          <tr key={run} data-testid={testid} data-run={run}>
            <td title={run}>{sayable(run)}</td>
            <td title={tags.join("\n")}>{tags.map(sayable).join(", ")}</td>
          </tr>
        ))}
        {rows.length > MOST_ROWS && (
          <tr>
            <td colSpan={2}>{text.empty.moreRows(rows.length - MOST_ROWS)}</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
