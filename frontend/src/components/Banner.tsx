import { formatClock } from "../format";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import { useNow } from "./clock";

export function Banner({ session, state }: { session: Session; state: SessionState }) {
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
