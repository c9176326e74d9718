import { useMemo } from "preact/hooks";
import { formatCount } from "../format";
import { commonPrefix, middleEllipsis } from "../names";
import { filterRuns } from "../selection";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { EmptyCircleIcon, FlagIcon, SearchIcon } from "./icons";
import { RunRows } from "./RunRows";

interface Props {
  session: Session;
  state: SessionState;
  theme: ThemeName;
}

export function RunList({ session, state, theme }: Props) {
  const { answer, order, view } = state;
  const filter = useMemo(() => filterRuns(order, view.filter), [order, view.filter]);
  const chosen = session.chosen;
  const prefix = useMemo(() => commonPrefix(filter.visible), [filter.visible]);
  const any = order.length > 0;
  return (
    <nav class="runs" data-testid="run-list" aria-label={text.runs.heading}>
      <div class="runs-head">
        <label class={filter.problem === null ? "search" : "search wrong"}>
          <SearchIcon />
          <input
            type="text"
            id="filter"
            data-testid="filter"
            spellcheck={false}
            autocomplete="off"
            placeholder={text.runs.filter}
            aria-label={text.runs.filterLabel}
            aria-invalid={filter.problem !== null}
            value={view.filter}
            onInput={(e) => session.setView({ filter: e.currentTarget.value }, true)}
            onKeyDown={(e) => {
              if (e.key !== "Escape") return;
              e.stopPropagation();
              if (view.filter) session.setView({ filter: "" });
              else e.currentTarget.blur();
            }}
          />
          {view.filter ? (
            <span class="count" data-testid="filter-count">
              {formatCount(filter.visible.length)} / {formatCount(order.length)}
            </span>
          ) : (
            <kbd>/</kbd>
          )}
        </label>
        {filter.problem !== null && (
          <p class="wrong-text" role="alert" data-testid="filter-problem">
            {text.runs.badRegex(filter.problem)}
          </p>
        )}
        <div class="runs-count">
          <span data-testid="selected-count">
            {any ? text.runs.chosen(chosen.length, order.length) : answer ? text.runs.none : ""}
          </span>
          <span class="spring" />
          <button
            type="button"
            class="link"
            data-testid="select-visible"
            disabled={filter.visible.length === 0}
            onClick={() => session.setView({ runs: [...new Set([...chosen, ...filter.visible])] })}
          >
            {text.runs.selectVisible}
          </button>
          <button
            type="button"
            class="link"
            data-testid="select-none"
            disabled={chosen.length === 0}
            onClick={() => session.setView({ runs: [] })}
          >
            {text.runs.selectNone}
          </button>
        </div>
        {prefix && (
          <p class="prefix" title={prefix}>
            {text.runs.prefix} <code>{middleEllipsis(prefix, 26, 14)}</code>
          </p>
        )}
      </div>
      {any ? (
        filter.visible.length > 0 ? (
          <RunRows session={session} state={state} theme={theme} names={filter.visible} cut={prefix.length} />
        ) : (
          <p class="runs-empty">{text.runs.noMatch}</p>
        )
      ) : (
        <p class="runs-empty">{answer ? text.runs.empty : ""}</p>
      )}
      {view.baseline !== null && state.runs.has(view.baseline) && (
        <p class="runs-foot" data-testid="baseline">
          <FlagIcon />
          <span class="runs-foot-name" title={view.baseline}>
            {text.runs.baseline}: {middleEllipsis(view.baseline, 28)}
          </span>
          <button type="button" class="link" onClick={() => session.setView({ baseline: null })}>
            {text.runs.unpin}
          </button>
        </p>
      )}
      {any && <GivenRoles session={session} state={state} />}
      {answer && answer.without_metrics.length > 0 && <WithoutMetrics names={answer.without_metrics} />}
    </nav>
  );
}

/** Where tags have roles from the user, or runs are left without any: the way to say what tags mean. */
function GivenRoles({ session, state }: Pick<Props, "session" | "state">) {
  const given = Object.keys(state.view.given).length;
  const { without_metrics = [], searched } = state.answer ?? {};
  const lacking = session.drawn.runs.some((run) => run.missing.some(({ role }) => role !== "loss_scale"));
  const wanted = without_metrics.length > 0 || lacking;
  const free = searched?.without_role ?? 0;
  if (given === 0 && (free === 0 || !wanted)) return null;
  return (
    <p class="runs-foot" data-testid="given-roles">
      <span class="runs-foot-name" title={Object.keys(state.view.given).join("\n")}>
        {given > 0 ? text.roles.given(given) : text.roles.free(free)}
      </span>
      <button
        type="button"
        class="link"
        data-testid="pick-roles"
        onClick={() => session.patch({ picking: true })}
      >
        {given > 0 ? text.roles.change : text.roles.pick}
      </button>
    </p>
  );
}

const MOST_NAMES = 500;

function WithoutMetrics({ names }: { names: readonly string[] }) {
  return (
    <details class="without" data-testid="without-metrics">
      <summary>
        <EmptyCircleIcon />
        {text.runs.withoutMetrics(names.length)}
      </summary>
      <p>{text.runs.whyWithout}</p>
      <ul>
        {names.slice(0, MOST_NAMES).map((name) => (
          <li key={name} title={name}>
            {name}
          </li>
        ))}
        {names.length > MOST_NAMES && <li>{text.empty.moreRows(names.length - MOST_NAMES)}</li>}
      </ul>
    </details>
  );
}
