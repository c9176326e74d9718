import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JsonNumber, RunInfo } from "../api";
import { formatCount, formatShort, formatValue } from "../format";
import { commonPrefix, middleEllipsis } from "../names";
import { homeSlot, slotColour } from "../palette";
import { filterRuns } from "../selection";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { useNow } from "./clock";
import { EmptyCircleIcon, SearchIcon } from "./icons";
import { px } from "./px";

const ROW = 46;
const SPARE = 8;

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
          <Rows session={session} state={state} theme={theme} names={filter.visible} cut={prefix.length} />
        ) : (
          <p class="runs-empty">{text.runs.noMatch}</p>
        )
      ) : (
        <p class="runs-empty">{answer ? text.runs.empty : ""}</p>
      )}
      {answer && answer.without_metrics.length > 0 && <WithoutMetrics names={answer.without_metrics} />}
    </nav>
  );
}

/** Only the rows in sight exist: a thousand of them would take longer to lay out than to read. */
function Rows({ session, state, theme, names, cut }: Props & { names: readonly string[]; cut: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 800 });
  const now = useNow(5000);
  const measure = () => {
    const el = box.current;
    if (el) setScroll({ top: el.scrollTop, height: el.clientHeight });
  };
  useLayoutEffect(measure, [names.length]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(scroll.top / ROW) - SPARE);
  const end = Math.min(names.length, Math.ceil((scroll.top + scroll.height) / ROW) + SPARE);
  const chosen = new Set(session.chosen);
  return (
    <div class="rows" ref={box} onScroll={measure}>
      <ul style={{ height: px(names.length * ROW), position: "relative" }}>
        {names.slice(first, end).map((name, i) => {
          const info = state.runs.get(name);
          if (!info) return null;
          return (
            <Row
              key={name}
              info={info}
              label={name.slice(cut)}
              top={(first + i) * ROW}
              now={now}
              chosen={chosen.has(name)}
              lit={state.hovered === name}
              colour={slotColour(state.slots.get(name) ?? homeSlot(name), theme)}
              session={session}
            />
          );
        })}
      </ul>
    </div>
  );
}

interface RowProps {
  info: RunInfo;
  label: string;
  top: number;
  now: number;
  chosen: boolean;
  lit: boolean;
  colour: string;
  session: Session;
}

function Row({ info, label, top, now, chosen, lit, colour, session }: RowProps) {
  const hover = (on: boolean) => {
    if (chosen || !on) session.patch({ hovered: on ? info.run : null });
  };
  const age = info.last_wall_time > 0 ? text.age(now - info.last_wall_time) : "–";
  const last = info.roles.loss?.last_value ?? null;
  const serious = info.verdict === "warning" || info.verdict === "critical" ? info.verdict : null;
  return (
    <li
      class={`row${chosen ? " chosen" : ""}${lit ? " lit" : ""}`}
      style={{ top: px(top), "--run": colour }}
      data-testid="run-row"
      data-run={info.run}
      data-selected={chosen}
      onMouseEnter={() => hover(true)}
      onMouseLeave={() => hover(false)}
    >
      <input
        type="checkbox"
        checked={chosen}
        aria-label={text.runs.toggle(info.run)}
        data-testid="run-checkbox"
        onChange={() => session.toggleRun(info.run)}
      />
      <div class="line">
        <button
          type="button"
          class="name"
          title={text.runs.only(info.run)}
          data-testid="run-name"
          onClick={() => session.setView({ runs: [info.run] })}
        >
          <MiddleCut name={label} />
        </button>
        <span class="pills">
          {serious && (
            <span
              class={`pill ${serious}`}
              title={info.notes[0] ?? text.verdict[serious]}
              data-testid="run-verdict"
            >
              {serious === "critical" ? "✕" : "!"} {text.verdict[serious]}
            </span>
          )}
          {info.notes.length > 0 && (
            <span
              class="pill info"
              data-testid="run-notes"
              title={info.notes.join("\n")}
              role="img"
              aria-label={`${text.runs.notes(info.notes.length)}: ${info.notes.join(" ")}`}
            >
              i{info.notes.length > 1 ? ` ${info.notes.length}` : ""}
            </span>
          )}
        </span>
      </div>
      <div class="line facts">
        <Progress info={info} />
        <span
          class={isFiniteNumber(last) || last === null ? "last number" : "last number bad"}
          data-testid="run-last-loss"
        >
          {last === null ? "–" : isFiniteNumber(last) ? formatValue(last, "loss") : spelled(last)}
        </span>
        <span class={`status ${info.status}`} title={text.status[info.status](age)}>
          <span class={info.status === "running" ? "dot live" : "dot"} />
          {age}
        </span>
      </div>
    </li>
  );
}

const isFiniteNumber = (v: JsonNumber): v is number => typeof v === "number";
const spelled = (v: JsonNumber): string =>
  v === "Infinity" ? "+Inf" : v === "-Infinity" ? "−Inf" : String(v);

/** The head gives way, the last nine characters stay. */
function MiddleCut({ name }: { name: string }) {
  const tail = name.length > 14 ? name.slice(-9) : "";
  return (
    <>
      <span class="head">{name.slice(0, name.length - tail.length)}</span>
      {tail && <span class="tail">{tail}</span>}
    </>
  );
}

function Progress({ info }: { info: RunInfo }) {
  const steps = Object.values(info.roles).map((r) => r.last_step);
  const last = info.roles.loss?.last_step ?? (steps.length ? Math.max(...steps) : null);
  if (last === null) return <span class="progress number">–</span>;
  const total = info.total_steps;
  return (
    <span class="progress number">
      {formatShort(last)}
      {total !== null && ` / ${formatShort(total)}`}
      {total !== null && total > 0 && (
        <span class="track">
          <span style={{ width: `${Math.min(100, (last / total) * 100)}%` }} />
        </span>
      )}
    </span>
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
