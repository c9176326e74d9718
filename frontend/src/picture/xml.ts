/** Pieces of XML. */

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Whatever a run is called: what XML cannot hold (control characters, halves of pairs) is replaced. */
export const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (c) => ENTITIES[c]!).replace(/[\p{Cc}\p{Cs}\ufffe\uffff]/gu, "\ufffd");

export const attribute = (name: string, value: string | number | undefined): string =>
  value === undefined ? "" : ` ${name}="${escaped(String(value))}"`;

export const rounded = (n: number, digits = 2): string => String(+n.toFixed(digits));
