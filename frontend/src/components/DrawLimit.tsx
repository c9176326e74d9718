import type { Session } from "../session";
import { text } from "../text";

/** More curves are chosen than are drawn: says so, and how to have them all. */
export function DrawLimit({ session }: { session: Session }) {
  const { runs, left } = session.drawn;
  if (left === 0) return null;
  return (
    <p class="notice" data-testid="draw-limit">
      <span aria-hidden="true">ⓘ</span> {text.chart.drawLimit(runs.length, runs.length + left)}{" "}
      <button type="button" class="link" data-testid="draw-all" onClick={() => session.setDrawAll()}>
        {text.chart.drawAll}
      </button>
    </p>
  );
}
