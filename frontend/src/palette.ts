/** Run colours: a slot belongs to a name, so a run keeps its colour from one visit to the next. */
import type { ThemeName } from "./theme";

const RUN_COLOURS: Record<ThemeName, readonly string[]> = {
  light: [
    "#417ac6",
    "#9f4606",
    "#0e704d",
    "#93378f",
    "#97730f",
    "#07a2bc",
    "#6500a8",
    "#86991a",
    "#710504",
    "#1f414a",
    "#cf6d73",
    "#445368",
  ],
  dark: [
    "#aaceff",
    "#ff9963",
    "#4dcb97",
    "#e991e3",
    "#f5c44e",
    "#abeeff",
    "#b77aff",
    "#d6eb85",
    "#e15c4d",
    "#74949e",
    "#fdd4d4",
    "#96a7bb",
  ],
};

export const SLOTS = 12;

export const slotColour = (slot: number, theme: ThemeName): string => RUN_COLOURS[theme][slot % SLOTS]!;

/** FNV-1a over UTF-16 units, finished with a mix so that names differing in one digit spread. */
export function hashName(name: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  return (h ^ (h >>> 13)) >>> 0;
}

export const homeSlot = (run: string): number => hashName(run) % SLOTS;

/** The colour of a run, drawn or not. */
export const colourOf = (run: string, slots: ReadonlyMap<string, number>, theme: ThemeName): string =>
  slotColour(slots.get(run) ?? homeSlot(run), theme);

/**
 * A slot for each drawn run: the one the user gave it, else the one it had before, else its own by
 * name, else the next free one. Past twelve runs slots repeat; then hover, labels and order tell runs apart.
 */
export function assignSlots(
  drawn: readonly string[],
  remembered: ReadonlyMap<string, number>,
  given: ReadonlyMap<string, number> = new Map(),
): Map<string, number> {
  const slots = new Map<string, number>();
  const taken = new Set<number>();
  const claim = (run: string, slot: number) => {
    slots.set(run, slot);
    taken.add(slot);
  };
  for (const run of drawn) {
    const own = given.get(run);
    if (own !== undefined) slots.set(run, own);
  }
  for (const run of drawn) {
    const before = remembered.get(run);
    if (before !== undefined && !slots.has(run) && !taken.has(before)) claim(run, before);
  }
  // Who had a colour keeps it when the user gives the same to another run; who comes now looks elsewhere.
  for (const slot of slots.values()) taken.add(slot);
  for (const run of drawn) {
    if (slots.has(run)) continue;
    const home = homeSlot(run);
    let slot = home;
    for (let i = 0; i < SLOTS && taken.has(slot); i++) slot = (slot + 1) % SLOTS;
    claim(run, taken.has(slot) ? home : slot);
  }
  return slots;
}
