import type { JsonNumber, RunInfo } from "../api";
import { remarks, worst } from "../findings";
import { formatCount, formatRough, formatShort, formatValue } from "../format";
import { lastStep, secondsLeft } from "../selection";
import type { Session } from "../session";
import type { Sparkline } from "../sparklines";
import { text } from "../text";
import { FlagIcon, PaletteIcon } from "./icons";
import { px } from "./px";
import { SeverityIcon } from "./Severity";

interface Props {
  session: Session;
  info: RunInfo;
  label: string;
  rank: boolean;
  top: number;
  place: number;
  of: number;
  now: number;
  chosen: boolean;
  lit: boolean;
  baseline: boolean;
  unfolded: boolean;
  sparkline: Sparkline | undefined;
  colour: string;
  onChoose: (on: boolean, range: boolean) => void;
  onFold: () => void;
  onColour: (at: DOMRect) => void;
}

export function RunRow(props: Props) {
  const { session, info, label, rank, top, chosen, lit, baseline, colour } = props;
  const hover = (on: boolean) => {
    if (chosen || !on) session.patch({ hovered: on ? info.run : null });
  };
  return (
    <li
      class={`row${chosen ? " chosen" : ""}${lit ? " lit" : ""}${rank ? " rank" : ""}${baseline ? " baseline" : ""}`}
      style={{ top: px(top), "--run": colour }}
      aria-posinset={props.place}
      aria-setsize={props.of}
      data-testid="run-row"
      data-run={info.run}
      data-selected={chosen}
      onMouseEnter={() => hover(true)}
      onMouseLeave={() => hover(false)}
      onFocusIn={() => hover(true)}
      onFocusOut={() => hover(false)}
    >
      <input
        type="checkbox"
        checked={chosen}
        aria-label={text.runs.toggle(info.run)}
        data-testid="run-checkbox"
        onClick={(e) => props.onChoose(!chosen, e.shiftKey)}
      />
      <div class="line">
        {baseline && <FlagIcon />}
        <button
          type="button"
          class="name"
          title={text.runs.only(info.run)}
          data-testid="run-name"
          onClick={() => session.setView({ runs: [info.run] })}
        >
          <MiddleCut name={label} />
        </button>
        {info.ranks.length > 1 && (
          <button
            type="button"
            class="disclosure"
            data-testid="run-ranks"
            aria-expanded={props.unfolded}
            title={text.runs.unfoldRanks(info.ranks.length)}
            onClick={props.onFold}
          >
            <span aria-hidden="true">{props.unfolded ? "▾" : "▸"}</span> {text.runs.ranks(info.ranks.length)}
          </button>
        )}
        <Tools {...props} />
        <Verdict info={info} />
      </div>
      <div class="line facts">
        <Progress info={info} />
        <LastLoss info={info} sparkline={props.sparkline} />
        <Spark {...props} />
        <Age {...props} />
      </div>
    </li>
  );
}

/** There for the pointer over the row, and for the keyboard. */
function Tools({ session, info, baseline, onColour }: Props) {
  const pin = baseline ? text.runs.unpinTitle(info.run) : text.runs.pin(info.run);
  return (
    <span class="row-tools">
      <button
        type="button"
        class="tool"
        data-testid="run-colour"
        title={text.runs.colour(info.run)}
        aria-label={text.runs.colour(info.run)}
        onClick={(e) => onColour(e.currentTarget.getBoundingClientRect())}
      >
        <PaletteIcon />
      </button>
      <button
        type="button"
        class="tool"
        data-testid="run-pin"
        title={pin}
        aria-label={pin}
        aria-pressed={baseline}
        onClick={() => session.setView({ baseline: baseline ? null : info.run })}
      >
        <FlagIcon />
      </button>
    </span>
  );
}

function Verdict({ info }: { info: RunInfo }) {
  if (info.verdict === null) return null;
  const bad = worst(info);
  const said = info.notes.join("\n");
  if (!bad) {
    const title = [text.runs.noFindings, ...remarks(info)].join("\n");
    return (
      <span class="pill ok" data-testid="run-verdict" data-verdict="ok" title={title}>
        <SeverityIcon of="ok" /> {text.verdict.ok}
      </span>
    );
  }
  const spoken = `${text.findings.count(bad.count, bad.severity)}: ${info.notes[0] ?? ""}`;
  return (
    <span
      class={`pill ${bad.severity}`}
      title={said}
      role="img"
      aria-label={spoken}
      data-testid="run-verdict"
      data-verdict={bad.severity}
    >
      <SeverityIcon of={bad.severity} /> {bad.count}
    </span>
  );
}

const isFiniteNumber = (v: JsonNumber): v is number => typeof v === "number";
const spelled = (v: JsonNumber): string =>
  v === "Infinity" ? "+Inf" : v === "-Infinity" ? "−Inf" : String(v);

function LastLoss({ info, sparkline }: { info: RunInfo; sparkline: Sparkline | undefined }) {
  // Of a folded rank nothing is listed; its curve tells.
  const last = info.roles.loss?.last_value ?? sparkline?.value ?? null;
  return (
    <span
      class={isFiniteNumber(last) || last === null ? "last number" : "last number bad"}
      data-testid="run-last-loss"
    >
      {last === null ? "–" : isFiniteNumber(last) ? formatValue(last, "loss") : spelled(last)}
    </span>
  );
}

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
  const last = lastStep(info);
  if (last === null) return <span class="progress number">–</span>;
  const total = info.total_steps;
  const left = secondsLeft(info);
  const title = [
    total !== null && text.runs.progress(formatCount(last), formatCount(total)),
    left !== null && text.runs.left(formatRough(left)),
  ].filter(Boolean);
  return (
    <span class="progress number" data-testid="run-progress" title={title.join(", ")}>
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

const SPARK = { width: 50, height: 16 };

/** Its length is the run's progress. */
function Spark({ info, sparkline }: Props) {
  if (!sparkline?.path) return <span class="spark" />;
  const total = info.total_steps;
  const part = total !== null && total > 0 ? Math.min(1, Math.max(0.06, sparkline.step / total)) : 1;
  const width = SPARK.width * part;
  return (
    <svg
      class="spark"
      width={SPARK.width}
      height={SPARK.height}
      role="img"
      aria-label={text.runs.sparkline(info.run)}
      data-testid="run-sparkline"
    >
      <path
        d={sparkline.path}
        transform={`translate(1 2) scale(${width - 2} ${SPARK.height - 4})`}
        vector-effect="non-scaling-stroke"
        fill="none"
        stroke="var(--run)"
        stroke-width="1.25"
        stroke-linejoin="round"
      />
    </svg>
  );
}

function Age({ info, now }: Props) {
  const age = info.last_wall_time > 0 ? text.age(now - info.last_wall_time) : "–";
  const left = secondsLeft(info);
  const said = text.status[info.status](age);
  return (
    <span
      class={`status ${info.status}`}
      data-testid="run-status"
      title={left === null ? said : `${said}\n${text.runs.left(formatRough(left))}`}
    >
      <span class={info.status === "running" ? "dot live" : "dot"} />
      {age}
    </span>
  );
}
