/**
 * A view as the parts of an address, of bounded length whatever the runs are called and however many
 * there are: names while they are few and short, else what selects the same runs.
 *
 *     runs=a,b          names, with "," and "%" in them escaped
 *     runs=*            those that the filter shows
 *     runs=~…           five characters a run, made from its name
 *     runs=!…           all but those
 */
import { runOf, scopeOf } from "./findings";
import { hashName, SLOTS } from "./palette";
import type { Given } from "./roles";
import { DEFAULT_VIEW, isGiven, parseView, type View } from "./state";

export interface LinkContext {
  /** All runs there are, ranks included. */
  readonly runs: readonly string[];
  /** Those that the filter shows. */
  readonly visible: readonly string[];
  /** Those that are drawn. */
  readonly drawn: readonly string[];
  /** Colours that the user gave. */
  readonly colours: ReadonlyMap<string, number>;
}

/** Characters for the choice of runs, before they are escaped for an address. */
const LONGEST_NAMES = 600;
const MOST_HASHES = 250;
const MOST_COLOURS = 50;
const HASH = 5;

export function viewToLink(view: View, context: LinkContext): URLSearchParams {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(view) as [keyof View, View[keyof View]][]) {
    if (key === "runs" || value === null || value === DEFAULT_VIEW[key]) continue;
    const said = textOf(key, value);
    if (said !== "") params.set(key, said);
  }
  if (view.runs !== null) params.set("runs", runsToText(view.runs, context));
  const colours = coloursToText(context);
  if (colours !== "") params.set("colours", colours);
  return params;
}

/** Of drawn runs: five characters for each as for the choice of runs, and one for its colour. */
function coloursToText({ drawn, colours }: LinkContext): string {
  const given = drawn.filter((run) => colours.has(run)).slice(0, MOST_COLOURS);
  return given.map((run) => shortHash(run) + DIGITS[colours.get(run)! % DIGITS.length]).join("");
}

/** The colours that whoever made the link gave to runs. */
export function coloursFromLink(params: URLSearchParams, runs: readonly string[]): Map<string, number> {
  const said = params.get("colours")?.match(/.{6}/g) ?? [];
  if (said.length === 0) return new Map();
  const byHash = new Map(runs.map((run) => [shortHash(run), run]));
  return new Map(
    said.flatMap((text): [string, number][] => {
      const run = byHash.get(text.slice(0, HASH));
      const slot = DIGITS.indexOf(text.slice(HASH));
      return run !== undefined && slot >= 0 && slot < SLOTS ? [[run, slot]] : [];
    }),
  );
}

export function viewFromLink(params: URLSearchParams, runs: readonly string[]): Partial<View> {
  const raw: Record<string, unknown> = {};
  for (const [key, value] of params) raw[key] = FROM_TEXT.get(key)?.(value) ?? value;
  delete raw.runs;
  const { baseline, findingsOf } = raw;
  if (typeof baseline === "string") raw.baseline = nameFromText(baseline, runs);
  if (typeof findingsOf === "string") raw.findingsOf = scopeFromText(findingsOf, runs);
  const view = parseView(raw);
  return { ...view, ...chosenRuns(params.get("runs"), view, runs) };
}

function runsToText(chosen: readonly string[], { runs, visible, drawn }: LinkContext): string {
  const names = chosen.map(escaped).join(",");
  if (names.length <= LONGEST_NAMES && !chosen.includes("")) return names;
  const own = new Set(chosen);
  if (own.size === visible.length && visible.every((run) => own.has(run))) return "*";
  if (chosen.length <= MOST_HASHES) return `~${chosen.map(shortHash).join("")}`;
  const others = runs.filter((run) => !own.has(run));
  if (others.length <= MOST_HASHES) return `!${others.map(shortHash).join("")}`;
  // The same picture, if not the same choice.
  return `~${drawn.slice(0, MOST_HASHES).map(shortHash).join("")}`;
}

function chosenRuns(said: string | null, view: Partial<View>, runs: readonly string[]): Partial<View> {
  if (said === null) return {};
  if (said === "") return { runs: [] };
  if (said === "*") return { runs: runs.filter(matching(view.filter ?? "")) };
  const hashes = said.slice(1).match(/.{5}/g) ?? [];
  if (said.startsWith("~")) {
    const byHash = new Map(runs.map((run) => [shortHash(run), run]));
    return some(hashes.flatMap((hash) => byHash.get(hash) ?? []));
  }
  if (said.startsWith("!")) {
    const left = new Set(hashes);
    return some(runs.filter((run) => !left.has(shortHash(run))));
  }
  const known = new Set(runs);
  return some([...new Set(said.split(",").map(unescaped))].filter((run) => known.has(run)));
}

/** Where none of the runs is there any more, nothing was said of them. */
const some = (runs: readonly string[]): Partial<View> => (runs.length > 0 ? { runs } : {});

function matching(filter: string): (run: string) => boolean {
  try {
    const regex = new RegExp(filter, "i");
    return (run) => regex.test(run);
  } catch {
    return () => true;
  }
}

const escaped = (name: string): string => name.replace(/[%,]|^[*~!]/g, encodeURIComponentToo);
const encodeURIComponentToo = (c: string): string => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`;

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function nameToText(name: string): string {
  const text = escaped(name);
  return text.length <= LONGEST_NAMES / 3 ? text : `~${shortHash(name)}`;
}

const nameFromText = (text: string, runs: readonly string[]): string | null =>
  (text.startsWith("~") ? runs.find((run) => shortHash(run) === text.slice(1)) : unescaped(text)) ?? null;

/** "selected", "all", or one run's. */
const scopeToText = (scope: string): string => {
  const run = runOf(scope);
  return run === null ? scope : scopeOf(nameToText(run));
};

function scopeFromText(text: string, runs: readonly string[]): string | null {
  const run = runOf(text);
  if (run === null) return text;
  const name = nameFromText(run, runs);
  return name && scopeOf(name);
}

function textOf(key: keyof View, value: NonNullable<View[keyof View]>): string {
  if (key === "baseline") return nameToText(String(value));
  if (key === "findingsOf") return scopeToText(String(value));
  if (key === "given") return givenToText(value as Given);
  return valueToText(value);
}

/** `loss:objective/total,lr:opt/step_size`: as many as there is room for. */
function givenToText(given: Given): string {
  let said = "";
  for (const [tag, role] of Object.entries(given)) {
    const longer = `${said}${said && ","}${role}:${escaped(tag)}`;
    if (longer.length <= LONGEST_NAMES) said = longer;
  }
  return said;
}

/** Each part that is none costs no other. */
function givenFromText(text: string): unknown {
  const pairs = text.split(",").map((pair) => {
    const at = pair.indexOf(":");
    return [unescaped(pair.slice(at + 1)), pair.slice(0, Math.max(0, at))] as const;
  });
  const valid = pairs.filter(([tag, role]) => isGiven(tag, role));
  return valid.length > 0 ? Object.fromEntries(valid) : null;
}

const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/** 30 bits: among a thousand runs two share it once in two thousand sets of runs. */
export function shortHash(name: string): string {
  let hash = hashName(name);
  let text = "";
  for (let i = 0; i < HASH; i++) {
    text += DIGITS[hash & 63];
    hash >>>= 6;
  }
  return text;
}

/** `loss:log,lr:linear` and `loss:1.5:3` for what is said of several roles. */
function valueToText(value: NonNullable<View[keyof View]>): string {
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .map(([role, of]) => [role, ...[of].flat()].join(":"))
    .join(",");
}

function byRole(text: string, value: (parts: string[]) => unknown): unknown {
  const entries = text.split(",").filter(Boolean);
  return Object.fromEntries(
    entries.map((entry) => {
      const [role = "", ...parts] = entry.split(":");
      return [role, value(parts)];
    }),
  );
}

const number = (text: string): number => (text.trim() === "" ? Number.NaN : Number(text));
const boolean = (text: string): unknown => (text === "true" ? true : text === "false" ? false : text);

const FROM_TEXT = new Map<string, (text: string) => unknown>([
  ["from", number],
  ["to", number],
  ["smoothing", number],
  ["tolerance", number],
  ["absolute", number],
  ["columns", number],
  ["every", number],
  ["drawAll", boolean],
  ["logX", boolean],
  ["yLock", boolean],
  ["scales", (text) => byRole(text, ([scale]) => scale)],
  ["given", givenFromText],
  ["ranges", (text) => byRole(text, (ends) => ends.map(number))],
]);
