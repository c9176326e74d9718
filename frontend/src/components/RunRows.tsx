import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colourOf } from "../palette";
import { chooseRange } from "../selection";
import type { Session, SessionState } from "../session";
import { useStore } from "../store";
import type { ThemeName } from "../theme";
import { ColourPicker } from "./ColourPicker";
import { useNow } from "./clock";
import { px } from "./px";
import { RunRow } from "./RunRow";

const ROW = 46;
const SPARE = 5;
/** Below this width (px) the list has no room for sparklines (as in the style sheet). */
const NARROW = "(max-width: 1179px)";

interface Props {
  session: Session;
  state: SessionState;
  theme: ThemeName;
  names: readonly string[];
  /** Length of what all names begin with. */
  cut: number;
}

interface Item {
  readonly run: string;
  /** A rank of a training that is unfolded. */
  readonly rank: boolean;
}

/** Only the rows in sight exist: a thousand of them would take longer to lay out than to read. */
export function RunRows({ session, state, theme, names, cut }: Props) {
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const [picking, setPicking] = useState<{ run: string; at: DOMRect } | null>(null);
  const items = useMemo(
    () => names.flatMap((run) => [{ run, rank: false }, ...ranksOf(state, run, unfolded)]),
    [names, state.runs, unfolded],
  );
  const { box, first, end, onScroll, onKeyDown } = useWindowed(items);
  const shown = items.slice(first, end);
  const { lines } = useStore(session.sparklines);
  useSparklines(session, state, shown);
  const now = useNow(5000);
  const anchor = useRef<string | null>(null);
  const chosen = new Set(session.chosen);

  const choose = (run: string, on: boolean, range: boolean) => {
    const rows = items.map((item) => item.run);
    const from = range && anchor.current !== null ? anchor.current : run;
    anchor.current = run;
    session.setView({ runs: chooseRange(session.chosen, rows, from, run, on) });
  };
  const fold = (run: string) =>
    setUnfolded((before) =>
      before.has(run) ? new Set([...before].filter((r) => r !== run)) : new Set([...before, run]),
    );
  return (
    <div class="rows" ref={box} onScroll={onScroll}>
      <ul style={{ height: px(items.length * ROW), position: "relative" }} onKeyDown={onKeyDown}>
        {shown.map(({ run, rank }, i) => {
          const info = state.runs.get(run);
          if (!info) return null;
          return (
            <RunRow
              key={rank ? `rank ${run}` : run}
              session={session}
              info={info}
              label={rank ? rankLabel(run) : run.slice(cut)}
              rank={rank}
              top={(first + i) * ROW}
              place={first + i + 1}
              of={items.length}
              now={now}
              chosen={chosen.has(run)}
              lit={state.hovered === run}
              baseline={state.view.baseline === run}
              unfolded={unfolded.has(run)}
              sparkline={lines.get(run)}
              colour={colourOf(run, state.slots, theme)}
              onChoose={(on, range) => choose(run, on, range)}
              onFold={() => fold(run)}
              onColour={(at) => setPicking({ run, at })}
            />
          );
        })}
      </ul>
      {picking && (
        <ColourPicker
          session={session}
          state={state}
          theme={theme}
          run={picking.run}
          at={picking.at}
          onClose={() => setPicking(null)}
        />
      )}
    </div>
  );
}

/** The ranks beside the one that stands for them. */
const ranksOf = (state: SessionState, run: string, unfolded: ReadonlySet<string>): Item[] =>
  unfolded.has(run)
    ? (state.runs.get(run)?.ranks ?? []).filter((r) => r !== run).map((r) => ({ run: r, rank: true }))
    : [];

/** What tells ranks apart: the name from `rank_` on. */
const rankLabel = (run: string): string => run.slice(Math.max(0, run.search(/rank_\d+/i)));

function useSparklines(session: Session, state: SessionState, shown: readonly Item[]): void {
  const names = shown.map((item) => item.run).join("\n");
  useEffect(() => {
    if (window.matchMedia(NARROW).matches) return;
    session.sparklines.want(shown.flatMap(({ run }) => state.runs.get(run) ?? []));
  }, [names, state.runs]);
}

/** Which rows are in sight, and the keys that walk through them. */
function useWindowed(items: readonly Item[]) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 800 });
  const wanted = useRef<string | null>(null);
  const measure = () => {
    const el = box.current;
    if (el) setScroll({ top: el.scrollTop, height: el.clientHeight });
  };
  useLayoutEffect(measure, [items.length]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  // The row that a key leads to may not exist before the list has scrolled.
  useLayoutEffect(() => {
    if (wanted.current === null) return;
    const rows = [...(box.current?.querySelectorAll<HTMLElement>("[data-testid=run-row]") ?? [])];
    const row = rows.find((el) => el.dataset.run === wanted.current);
    if (!row) return;
    row.querySelector<HTMLElement>("input")?.focus({ preventScroll: true });
    wanted.current = null;
  });
  const onKeyDown = (e: KeyboardEvent) => {
    const el = box.current;
    const row = (e.target as HTMLElement).closest<HTMLElement>("[data-testid=run-row]");
    if (!el || !row || e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(el.clientHeight / ROW) - 1);
    const at = items.findIndex((item) => item.run === row.dataset.run);
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: items.length - 1,
    }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    const place = Math.max(0, Math.min(items.length - 1, to));
    wanted.current = items[place]?.run ?? null;
    el.scrollTop = Math.min(place * ROW, Math.max(el.scrollTop, (place + 1) * ROW - el.clientHeight));
    measure();
  };
  return {
    box,
    first: Math.max(0, Math.floor(scroll.top / ROW) - SPARE),
    end: Math.min(items.length, Math.ceil((scroll.top + scroll.height) / ROW) + SPARE),
    onScroll: measure,
    onKeyDown,
  };
}
