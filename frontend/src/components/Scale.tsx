import type { Zone } from "../chart/plan";
import type { Session } from "../session";
import { text } from "../text";

/** Says which y scale a role has, and switches it. */
export function Scale({ session, zone }: { session: Session; zone: Zone }) {
  const { role, transform } = zone;
  const log = transform !== "linear";
  const { scales } = session.state.view;
  return (
    <button
      type="button"
      class="scale"
      data-testid="scale"
      data-role={role}
      data-scale={transform}
      aria-pressed={log}
      title={text.chart.scaleTitle(text.axisTitle[role], log)}
      onClick={() => session.setView({ scales: { ...scales, [role]: log ? "linear" : "log" } })}
    >
      {text.chart.scales[transform]}
    </button>
  );
}
