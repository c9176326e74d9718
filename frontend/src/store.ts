/** A value that tells when it changed: all the state machinery this tab needs. */
import { useEffect, useState } from "preact/hooks";

export class Store<T extends object> {
  private listeners = new Set<() => void>();

  constructor(private current: T) {}

  get state(): T {
    return this.current;
  }

  patch(change: Partial<T>): void {
    this.current = { ...this.current, ...change };
    for (const listener of [...this.listeners]) listener();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useStore<T extends object>(store: Store<T>): T {
  const [, redraw] = useState(0);
  useEffect(() => store.subscribe(() => redraw((n) => n + 1)), [store]);
  return store.state;
}
