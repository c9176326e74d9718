/** After a failure: what went wrong, and another try later and later where that may help. */
import { ApiError } from "./api";
import { text } from "./text";

export interface Problem {
  readonly message: string;
  readonly hint: string;
  /** When the next try starts (ms, Date.now()); null when trying again unchanged would not help. */
  readonly retryAt: number | null;
}

const BACK_OFF_S = [2, 4, 8, 16, 30];

export class Retry {
  private timer = 0;
  private failures = 0;

  constructor(private readonly again: () => void) {}

  /** Another try is on its way. */
  get pending(): boolean {
    return this.timer !== 0;
  }

  /** Returns what to tell. */
  failed(error: unknown): Problem {
    const known = error instanceof ApiError;
    if (!known) console.error(error);
    const passing = known && error.passing;
    const wait = BACK_OFF_S[Math.min(this.failures, BACK_OFF_S.length - 1)]! * 1000;
    this.failures++;
    this.stop();
    if (passing) this.timer = window.setTimeout(this.again, wait);
    return {
      message: known ? error.message : text.banner.notShown,
      hint: known ? error.hint : text.banner.notShownHint,
      retryAt: passing ? Date.now() + wait : null,
    };
  }

  succeeded(): void {
    this.failures = 0;
    this.stop();
  }

  stop(): void {
    window.clearTimeout(this.timer);
    this.timer = 0;
  }
}
