import type { Session, SessionState } from "../session";
import { INTERVALS } from "../state";
import { text } from "../text";
import { ReloadIcon } from "./icons";
import { Menu } from "./Menu";

/** Reload now, and how often by itself. */
export function ReloadMenu({ session, state }: { session: Session; state: SessionState }) {
  return (
    <span class="split">
      <button
        type="button"
        class={state.refreshing ? "button square busy" : "button square"}
        data-testid="reload"
        aria-label={text.reload}
        title={text.reload}
        onClick={() => void session.reload()}
      >
        <ReloadIcon />
      </button>
      <Menu
        label={text.refresh.title}
        testid="refresh"
        class="button narrow"
        items={() =>
          INTERVALS.map((seconds) => ({
            key: String(seconds),
            label: seconds === 0 ? text.refresh.follow : text.refresh.every(seconds),
            checked: state.view.every === seconds,
            onChoose: () => session.setView({ every: seconds }),
          }))
        }
      >
        <span aria-hidden="true">▾</span>
      </Menu>
    </span>
  );
}
