import type { Session } from "../session";
import { BELOW } from "../state";
import { text } from "../text";

/** What stands under the chart: findings, or the values at the cursor. */
export function BelowToggle({ session }: { session: Session }) {
  return (
    <fieldset class="toggle" aria-label={text.values.below} data-testid="below">
      {BELOW.map((below) => (
        <button
          key={below}
          type="button"
          aria-pressed={session.state.view.below === below}
          data-below={below}
          title={below === "values" ? text.values.title : undefined}
          onClick={() => session.setView({ below })}
        >
          {below === "findings" ? text.findings.heading : text.values.heading}
        </button>
      ))}
    </fieldset>
  );
}
