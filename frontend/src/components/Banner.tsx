import { useEffect, useState } from "preact/hooks";
import { formatClock } from "../format";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import { useNow } from "./clock";

/** What keeps the picture from being the newest: a fault, or a server that takes its time. */
export function Banner({ session, state }: { session: Session; state: SessionState }) {
  return state.problem ? <Fault session={session} state={state} /> : <Slow state={state} />;
}

function Fault({ session, state }: { session: Session; state: SessionState }) {
  const { problem, freshAt, refreshing, frame } = state;
  const now = useNow(500);
  if (!problem) return null;
  const wait = problem.retryAt === null ? null : Math.max(0, Math.ceil(problem.retryAt / 1000 - now));
  return (
    <div class="banner" role="alert" data-testid="banner">
      <strong>{problem.message}</strong> {problem.hint}{" "}
      {frame && text.banner.kept(formatClock(freshAt / 1000))}{" "}
      {wait !== null && (
        <span class="number">{wait > 0 && !refreshing ? text.banner.retry(wait) : text.banner.retrying}</span>
      )}
      <span class="spring" />
      <button type="button" class="button" data-testid="retry" onClick={() => void session.reload()}>
        {text.banner.now}
      </button>
    </div>
  );
}

/** Seconds after which waiting wants a word. */
const PATIENCE = 5;

function Slow({ state }: { state: SessionState }) {
  const busy = state.refreshing || state.loading;
  const [since, setSince] = useState<number | null>(null);
  useEffect(() => setSince(busy ? Date.now() / 1000 : null), [busy]);
  const now = useNow(1000);
  const waited = since === null ? 0 : now - since;
  if (waited < PATIENCE) return null;
  return (
    <p class="notice" role="status" data-testid="slow">
      {text.banner.slow(Math.floor(waited))}{" "}
      {state.frame && text.banner.kept(formatClock(state.freshAt / 1000))}
    </p>
  );
}
