import { useEffect, useState } from "preact/hooks";
import { ApiError, isAbort } from "../api";
import { text } from "../text";

/** What the server said to a question; null while it has not. */
export type Asked<T> = { readonly answer: T } | { readonly error: string; readonly hint: string } | null;

/** Asks the server once, and again whenever one of `again` is another. */
export function useAnswer<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  again: readonly unknown[] = [],
): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>(null);
  useEffect(() => {
    const abort = new AbortController();
    ask(abort.signal).then(
      (answer) => setAsked({ answer }),
      (error) => {
        if (isAbort(error)) return;
        const known = error instanceof ApiError ? error : null;
        if (!known) console.error(error);
        setAsked({ error: known?.message ?? text.banner.notShown, hint: known?.hint ?? "" });
      },
    );
    return () => abort.abort();
  }, again);
  return asked;
}
