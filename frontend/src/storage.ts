/** What a browser keeps for the tab. Storage may be blocked or full: the tab then only forgets. */

/** What was kept under a key; null where nothing was, or nothing that can be read. */
export function kept(key: string, storage: () => Storage = () => localStorage): unknown {
  try {
    return JSON.parse(storage().getItem(key) ?? "null");
  } catch {
    return null;
  }
}

export function keep(key: string, value: unknown, storage: () => Storage = () => localStorage): void {
  try {
    storage().setItem(key, JSON.stringify(value));
  } catch {
    // as said above
  }
}
