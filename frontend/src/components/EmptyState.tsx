import type { ComponentChildren } from "preact";
import type { RoleInfo, RunInfo, Searched } from "../api";
import { formatCount, formatSignificant } from "../format";
import { sayable } from "../names";
import { isChartRole, type Role } from "../roles";
import type { Session } from "../session";
import { CALLBACK_SNIPPET, DOCTOR_COMMAND, text } from "../text";
import { CopyButton } from "./CopyButton";
import { RolePicker } from "./RolePicker";

const MOST_PROBLEMS = 5;

/** Nothing at all to draw: what was looked at, and what would put something here. */
export function NoMetrics({ session, searched }: { session: Session; searched: Searched }) {
  const { logdir, directories, event_files, tags, problems } = searched;
  const why =
    event_files === 0 ? text.empty.noEvents : tags === 0 ? text.empty.noTags : text.empty.unknownTags;
  return (
    <section class="empty" data-testid="empty-state" data-kind="no-metrics">
      <h2>{text.empty.title}</h2>
      <p>
        {logdir ? (
          <>
            {text.empty.lookedIn} <code>{logdir}</code>
          </>
        ) : (
          text.empty.lookedEverywhere
        )}
        : {text.empty.looked(directories, event_files, tags)} {why}{" "}
        {text.empty.again(session.state.view.every)}
      </p>
      {problems.slice(0, MOST_PROBLEMS).map((problem) => (
        <p key={problem} data-testid="problem">
          {problem}
        </p>
      ))}
      {problems.length > MOST_PROBLEMS && <p>{text.empty.moreRows(problems.length - MOST_PROBLEMS)}</p>}
      {tags > 0 && (
        <Card number={1} title={text.roles.title}>
          <p>{text.roles.what}</p>
          <RolePicker session={session} />
        </Card>
      )}
      <Card number={tags > 0 ? 2 : 1} title={text.empty.callbackTitle}>
        <p>
          {text.empty.callbackText[0]} <code>model.train</code>
          {text.empty.callbackText[1]}
        </p>
        <Snippet code={CALLBACK_SNIPPET(logdir)} />
      </Card>
      {tags === 0 && (
        <Card number={2} title={text.empty.logdirTitle}>
          <p>
            {text.empty.logdirText[0]} <code>--logdir</code> {text.empty.logdirText[1]}{" "}
            <code>events.out.tfevents…</code> {text.empty.logdirText[2]}
          </p>
        </Card>
      )}
      <Card number={3} title={text.empty.doctorTitle}>
        <p>{text.empty.doctorText}</p>
        <Snippet code={DOCTOR_COMMAND(logdir)} />
      </Card>
      {tags > 0 && (
        <Card number={4} title={text.empty.namesTitle}>
          <p>
            {text.empty.namesText[0]} <code>train/loss</code> <code>learning_rate</code>{" "}
            <code>grad_norm</code> <code>loss_scale</code> {text.empty.namesText[1]}
          </p>
        </Card>
      )}
      <p class="at-hand">
        {text.empty.demo[0]} <code>make demo</code> {text.empty.demo[1]}
      </p>
    </section>
  );
}

function Card({ number, title, children }: { number: number; title: string; children: ComponentChildren }) {
  return (
    <div class="card">
      <span class="card-number">{number}</span>
      <div>
        <h3>{title}</h3>
        {children}
      </div>
    </div>
  );
}

function Snippet({ code }: { code: string }) {
  return (
    <pre class="snippet">
      <code>{code}</code>
      <CopyButton what={() => code} copied={text.empty.copied} testid="copy-snippet">
        {text.empty.copy}
      </CopyButton>
    </pre>
  );
}

export function NothingChosen({ onNewest }: { onNewest: () => void }) {
  return (
    <section class="empty short" data-testid="empty-state" data-kind="nothing-selected">
      <h2>{text.empty.nothingChosenTitle}</h2>
      <p>{text.empty.nothingChosen}</p>
      <button type="button" class="button" data-testid="show-newest" onClick={onNewest}>
        {text.empty.showNewest}
      </button>
    </section>
  );
}

const MOST_ROWS = 30;

/** Runs that logged something, only nothing with an axis in the overlay: show what it is. */
export function OtherRoles({ runs, onStacked }: { runs: readonly RunInfo[]; onStacked: () => void }) {
  const rows = runs.flatMap((run) =>
    (Object.entries(run.roles) as [Role, RoleInfo][]).map(([role, info]) => ({ run, role, info })),
  );
  const hints = new Map(runs.flatMap((r) => r.missing.map((m) => [m.role, m.hint] as const)));
  return (
    <div class="empty-scroll">
      <section class="empty" data-testid="empty-state" data-kind="other-roles">
        <h2>{text.empty.otherRolesTitle(runs.length)}</h2>
        {runs.flatMap((run) =>
          run.notes.map((note) => (
            <p key={`${run.run}\n${note}`} data-testid="run-note">
              {runs.length > 1 ? text.missing.run(sayable(run.run), note) : note}
            </p>
          )),
        )}
        <p>{rows.length > 0 ? text.empty.otherRoles : text.empty.nothingYet}</p>
        {rows.some(({ role }) => isChartRole(role)) && (
          <p>
            <button type="button" class="button" data-testid="show-stacked" onClick={onStacked}>
              {text.empty.showStacked}
            </button>
          </p>
        )}
        {rows.length > 0 && <LoggedRoles rows={rows} named={runs.length > 1} />}
        {[...hints].map(([role, hint]) => (
          <p key={role} data-testid="missing-hint" data-role={role}>
            {text.missing.role(text.role(role), text.missing.all(runs.length), hint)}
          </p>
        ))}
      </section>
    </div>
  );
}

interface LoggedRole {
  readonly run: RunInfo;
  readonly role: Role;
  readonly info: RoleInfo;
}

function LoggedRoles({ rows, named }: { rows: readonly LoggedRole[]; named: boolean }) {
  const columns = text.empty.columns;
  return (
    <>
      <table>
        <thead>
          <tr>
            {named && <th>{columns.run}</th>}
            <th>{columns.metric}</th>
            <th>{columns.tag}</th>
            <th class="right">{columns.points}</th>
            <th class="right">{columns.last}</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map(({ run, role, info }) => (
            <tr key={`${run.run}\n${role}`}>
              {named && <td title={run.run}>{sayable(run.run)}</td>}
              <td>{text.role(role)}</td>
              <td>
                <code title={info.tag}>{sayable(info.tag)}</code>
              </td>
              <td class="right number">{info.points === null ? "–" : formatCount(info.points)}</td>
              <td class="right number">{lastValue(info)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && <p>{text.empty.moreRows(rows.length - MOST_ROWS)}</p>}
    </>
  );
}

const lastValue = (info: RoleInfo): string =>
  typeof info.last_value === "number" ? formatSignificant(info.last_value, 4) : (info.last_value ?? "–");
