import { MOST_DRAWN } from "../selection";
import type { Session } from "../session";
import { text } from "../text";

/** More curves are chosen than tell anything: says how many of them are drawn, and how to have more or fewer. */
export function DrawLimit({ session }: { session: Session }) {
  const { runs, left } = session.drawn;
  const all = left === 0;
  if (all && runs.length <= MOST_DRAWN) return null;
  return (
    <p class="notice" data-testid="draw-limit">
      <span aria-hidden="true">ⓘ</span>{" "}
      {all ? text.chart.allDrawn(runs.length) : text.chart.drawLimit(runs.length, runs.length + left)}{" "}
      <button
        type="button"
        class="link"
        data-testid={all ? "draw-fewer" : "draw-all"}
        onClick={() => session.setView({ drawAll: !all })}
      >
        {all ? text.chart.drawFewer(MOST_DRAWN) : text.chart.drawAll}
      </button>
    </p>
  );
}
