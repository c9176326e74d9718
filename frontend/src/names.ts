/** Short forms of run names that stay tellable apart. */

/** Where a name may be cut: after a separator, unless that stands within a number (3e-4, 0.2). */
const BREAK = /[/_\- .]$/;
const WITHIN_NUMBER = /\d(e-|\.)$/;

/** What all names begin with, up to and including a separator; "" when too short to be worth saying. */
export function commonPrefix(names: readonly string[], shortest = 4): string {
  if (names.length < 2) return "";
  let prefix = names[0]!;
  for (const name of names) {
    let n = 0;
    while (n < prefix.length && n < name.length && prefix[n] === name[n]) n++;
    prefix = prefix.slice(0, n);
    if (!prefix) return "";
  }
  while (prefix && (!BREAK.test(prefix) || WITHIN_NUMBER.test(prefix))) prefix = prefix.slice(0, -1);
  if (names.includes(prefix)) return "";
  return prefix.length >= shortest ? prefix : "";
}

/** The part in which names differ, for labels at the lines. */
export function distinctParts(names: readonly string[]): Map<string, string> {
  const prefix = commonPrefix(names, 2);
  const tails = names.map((n) => n.slice(prefix.length));
  const suffix = reversed(commonPrefix(tails.map(reversed), 2));
  return new Map(
    names.map((name, i) => {
      const tail = tails[i]!;
      const part = tail.slice(0, tail.length - suffix.length);
      return [name, part || tail || name];
    }),
  );
}

const reversed = (s: string): string => [...s].reverse().join("");

/** Cut in the middle: the end of a run name (its seed, its rank) tells most. */
export function middleEllipsis(name: string, limit: number, tail = 9): string {
  if (name.length <= limit) return name;
  const keep = Math.min(tail, Math.max(1, limit - 2));
  return `${name.slice(0, Math.max(1, limit - keep - 1))}…${name.slice(-keep)}`;
}

/** Longer names, which may have thousands of characters, would bury the sentence that they stand in. */
const SAYABLE = 60;

/** A name as part of a sentence on the screen. */
export const sayable = (name: string): string => middleEllipsis(name, SAYABLE, 24);
