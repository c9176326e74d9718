import { useMemo, useState } from "preact/hooks";
import { formatCount, formatSignificant } from "../format";
import { middleEllipsis } from "../names";
import { GIVABLE_ROLES, type GivableRole, type Given, roleGiven } from "../roles";
import type { Session } from "../session";
import { candidates, type Row, suggestion } from "../tag-roles";
import { text } from "../text";
import { useAnswer } from "./use-answer";

/** Rows that are shown of many tags; the filter finds the others. */
const MOST_ROWS = 30;
/** From so many on a filter is worth its place. */
const MANY = 10;

/** A table of the tags whose names tell no role, to say of each what it means. */
export function RolePicker({ session, onDone }: { session: Session; onDone?: () => void }) {
  const { given } = session.state.view;
  const { answer } = session.state;
  const asked = useAnswer((signal) => session.api.tags(signal), [session, answer]);
  const tags = asked && "answer" in asked ? asked.answer : null;
  const [said, setSaid] = useState<Given | null>(null);
  const [filter, setFilter] = useState("");
  const wanted = said ?? (tags ? suggestion(tags, given) : given);
  const all = useMemo(() => candidates(tags ?? [], given), [tags, given]);
  const found = all.filter(({ tag }) => tag.toLowerCase().includes(filter.trim().toLowerCase()));
  const take = (tag: string, role: GivableRole | "") => {
    const { [tag]: _, ...others } = wanted;
    setSaid(role === "" ? others : { ...others, [tag]: role });
  };
  if (asked === null) return <p role="status">{text.roles.loading}</p>;
  if ("error" in asked) {
    return (
      <p role="alert" data-testid="roles-problem">
        {asked.error} {asked.hint}
      </p>
    );
  }
  return (
    <form
      class="role-picker"
      data-testid="role-picker"
      onSubmit={(e) => {
        e.preventDefault();
        session.setGiven(wanted);
        onDone?.();
      }}
    >
      {all.length > MANY && (
        <input
          type="text"
          class="tag-filter"
          data-testid="tag-filter"
          placeholder={text.roles.filter(all.length)}
          aria-label={text.roles.filter(all.length)}
          value={filter}
          onInput={(e) => setFilter(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter") e.preventDefault(); // which would take the roles as they stand
          }}
        />
      )}
      <Table rows={found.slice(0, MOST_ROWS)} wanted={wanted} onTake={take} />
      {found.length > MOST_ROWS && <p>{text.empty.moreRows(found.length - MOST_ROWS)}</p>}
      {found.length === 0 && <p>{all.length === 0 ? text.roles.none : text.roles.noMatch}</p>}
      <p class="role-picker-foot">
        <button type="submit" class="button primary" data-testid="roles-show" disabled={same(wanted, given)}>
          {Object.keys(wanted).length === 0 ? text.roles.clear : text.roles.show(Object.keys(wanted).length)}
        </button>
        <span>{text.roles.kept}</span>
      </p>
    </form>
  );
}

interface TableProps {
  rows: readonly Row[];
  wanted: Given;
  onTake: (tag: string, role: GivableRole | "") => void;
}

function Table({ rows, wanted, onTake }: TableProps) {
  const columns = text.roles.columns;
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{columns.tag}</th>
          <th scope="col" class="right">
            {columns.runs}
          </th>
          <th scope="col" class="right" title={text.roles.ofNewest}>
            {columns.points}
          </th>
          <th scope="col" class="right" title={text.roles.ofNewest}>
            {columns.last}
          </th>
          <th scope="col">{columns.role}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.tag} data-testid="tag" data-tag={row.tag}>
            <td title={row.tag}>
              <code>{middleEllipsis(row.tag, 40, 18)}</code>
            </td>
            <Numbers of={row} />
            <td>
              <select
                data-testid="tag-role"
                aria-label={text.roles.of(row.tag)}
                value={roleGiven(wanted, row.tag) ?? ""}
                onChange={(e) => onTake(row.tag, e.currentTarget.value as GivableRole | "")}
              >
                <option value="">{text.roles.choose}</option>
                {GIVABLE_ROLES.map((role) => (
                  <option key={role} value={role}>
                    {text.role(role)}
                  </option>
                ))}
              </select>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Of a tag that no run has there are none. */
function Numbers({ of: { runs, points, last_value: last } }: { of: Row }) {
  return (
    <>
      <td class="right number">{runs === undefined ? "–" : formatCount(runs)}</td>
      <td class="right number">{points == null ? "–" : formatCount(points)}</td>
      <td class="right number">{typeof last === "number" ? formatSignificant(last, 4) : (last ?? "–")}</td>
    </>
  );
}

const same = (a: Given, b: Given): boolean =>
  Object.keys(a).length === Object.keys(b).length &&
  Object.entries(a).every(([tag, role]) => roleGiven(b, tag) === role);
