/** Which tags are offered a role, and which role each is offered with. */
import type { TagInfo } from "./api";
import { GIVABLE_ROLES, type GivableRole, type Given, roleGiven } from "./roles";

const rankOf = (role: string | null | undefined): number => {
  const at = (GIVABLE_ROLES as readonly (string | null | undefined)[]).indexOf(role);
  return at < 0 ? GIVABLE_ROLES.length : at;
};

/** A tag; without numbers where no run has it. */
export type Row = Pick<TagInfo, "tag"> & Partial<TagInfo>;

/** All there are and those that the user spoke of: first those that have a role from the user, those whose names speak of one, the others; in each by role, then by name. */
export function candidates(tags: readonly TagInfo[], given: Given): readonly Row[] {
  const told = new Set(tags.map(({ tag }) => tag));
  const own = Object.keys(given).filter((tag) => !told.has(tag));
  const rows: Row[] = [...own.map((tag) => ({ tag })), ...tags];
  const group = ({ tag }: Row) => (roleGiven(given, tag) ? 0 : 1);
  const suggested = (row: Row) => rankOf(roleGiven(given, row.tag) ?? row.suggested);
  return rows.sort(
    (a, b) =>
      group(a) - group(b) || suggested(a) - suggested(b) || (a.tag < b.tag ? -1 : a.tag > b.tag ? 1 : 0),
  );
}

/** What the user said; as long as that is nothing, what the tags' names speak of. */
export function suggestion(tags: readonly TagInfo[], given: Given): Given {
  if (Object.keys(given).length > 0) return given;
  return Object.fromEntries(
    tags.flatMap(({ tag, suggested }) =>
      rankOf(suggested) < GIVABLE_ROLES.length ? [[tag, suggested as GivableRole]] : [],
    ),
  );
}
