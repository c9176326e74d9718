import { useState } from "preact/hooks";
import { saveFile, saveText, visit } from "../hand-over";
import { pngOf, svgPicture } from "../picture/picture";
import type { Session } from "../session";
import { text } from "../text";
import { LayoutDialog } from "./LayoutDialog";
import { Menu } from "./Menu";

/** Servers take no longer address. */
const LONGEST_URL = 16_000;

/** All points of the drawn runs from the server, and the chart as it is on the screen. */
export function ExportMenu({ session }: { session: Session }) {
  const [layout, setLayout] = useState(false);
  const runs = session.drawn.runs.map((run) => run.run);
  const data = (format: "csv" | "json") => {
    const url = session.exportUrl(runs, format);
    const tooLong = url.length > LONGEST_URL;
    return {
      key: format,
      label: text.exports[format],
      disabled: tooLong || runs.length === 0,
      title: tooLong ? text.exports.tooMany : "",
      onChoose: () => visit(url),
    };
  };
  const picture = (save: (svg: string) => void | Promise<void>) => {
    svgPicture(document.querySelector<HTMLElement>(".chart")!, session.charts)
      .then(save)
      .catch((error: unknown) => {
        console.error(error);
        const problem = { message: text.exports.failed, hint: text.exports.failedHint, retryAt: null };
        session.patch({ problem });
      });
  };
  return (
    <>
      <Menu
        label={text.exports.label}
        testid="export"
        class="button menu-button"
        disabled={!session.state.answer?.runs.length}
        items={() => [
          { ...data("csv"), heading: text.exports.data(runs.length) },
          data("json"),
          {
            key: "png",
            label: text.exports.png,
            heading: text.exports.chart,
            disabled: session.charts.size === 0,
            onChoose: () => picture(async (svg) => saveFile("training-health.png", await pngOf(svg))),
          },
          {
            key: "svg",
            label: text.exports.svg,
            disabled: session.charts.size === 0,
            onChoose: () => picture((svg) => saveText("training-health.svg", "image/svg+xml", svg)),
          },
          {
            key: "layout",
            label: text.exports.layout,
            heading: text.exports.tools,
            title: text.exports.layoutTitle,
            onChoose: () => setLayout(true),
          },
        ]}
      >
        {text.exports.label} <span aria-hidden="true">▾</span>
      </Menu>
      {layout && <LayoutDialog session={session} onClose={() => setLayout(false)} />}
    </>
  );
}
