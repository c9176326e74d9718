import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, isAbort, type LayoutChart, type LayoutPreview } from "../api";
import { saveFile } from "../hand-over";
import { sayable } from "../names";
import type { Session } from "../session";
import { text } from "../text";
import { CopyButton } from "./CopyButton";

type Looked = { readonly preview: LayoutPreview } | { readonly error: string; readonly hint: string } | null;

/** What a layout of Custom Scalars for these runs would show, to be taken along as a file or a command. */
export function LayoutDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [looked, setLooked] = useState<Looked>(null);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    const abort = new AbortController();
    session.api.layout(abort.signal).then(
      (preview) => setLooked({ preview }),
      (error) => {
        if (isAbort(error)) return;
        const known = error instanceof ApiError ? error : null;
        if (!known) console.error(error);
        setLooked({ error: known?.message ?? text.banner.notShown, hint: known?.hint ?? "" });
      },
    );
    return () => abort.abort();
  }, []);
  return (
    <dialog
      ref={dialog}
      class="help layout-dialog"
      aria-labelledby="layout-title"
      data-testid="layout-dialog"
      data-state={looked === null ? "loading" : "preview" in looked ? "ready" : "error"}
      onClose={onClose}
      onClick={(e) => {
        if (e.target === dialog.current) dialog.current?.close(); // beside it
      }}
      onKeyDown={(e) => e.stopPropagation()}
    >
      <div class="help-head">
        <h2 id="layout-title">{text.layout.title}</h2>
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          {text.layout.close}
        </button>
      </div>
      <p>{text.layout.what}</p>
      {looked === null && <p role="status">{text.layout.loading}</p>}
      {looked && "error" in looked && (
        <p role="alert" data-testid="layout-problem">
          {looked.error}: {looked.hint}
        </p>
      )}
      {looked && "preview" in looked && (
        <Preview preview={looked.preview} logdir={session.state.answer?.searched.logdir ?? ""} />
      )}
    </dialog>
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
