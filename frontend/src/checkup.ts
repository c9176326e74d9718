/** Fetches what the rules found, run by run; again only where a run has grown or the language changed. */
import { type Api, ApiError, type Finding, isAbort, type RunInfo } from "./api";
import { versionOf } from "./findings";
import type { Language } from "./language";
import { text } from "./text";

export interface Checked {
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
  /** Runs whose findings are on their way. */
  readonly checking: number;
  /** Run -> why it could not be checked. */
  readonly unchecked: ReadonlyMap<string, string>;
}

/** Requests at a time: checking must not keep the curves waiting. */
const AT_ONCE = 2;

export class Checkup {
  private readonly known = new Map<string, { version: string; findings: readonly Finding[] }>();
  private readonly failed = new Map<string, { version: string; why: string }>();
  private baseline: string | null = null;
  private queue: { run: string; version: string; language: Language }[] = [];
  private readonly underway = new Map<string, { version: string; abort: AbortController }>();

  constructor(
    private readonly api: Pick<Api, "findings">,
    private readonly onChange: (checked: Checked) => void,
  ) {}

  /** From now on these runs matter; what is known of others is kept for when they do again. */
  want(runs: readonly RunInfo[], language: Language, baseline: RunInfo | null = null): void {
    const against = baseline ? ` ${versionOf(baseline)} ${baseline.run}` : "";
    const versions = new Map(runs.map((run) => [run.run, `${language} ${versionOf(run)}${against}`]));
    this.baseline = baseline?.run ?? null;
    for (const [run, { version, abort }] of this.underway) {
      if (versions.get(run) === version) continue;
      abort.abort();
      this.underway.delete(run);
    }
    this.queue = [];
    for (const [run, version] of versions) {
      const settled = this.known.get(run)?.version === version || this.failed.get(run)?.version === version;
      if (!settled && !this.underway.has(run)) this.queue.push({ run, version, language });
    }
    this.tell();
    this.next();
  }

  private next(): void {
    while (this.queue.length > 0 && this.underway.size < AT_ONCE) {
      const { run, version, language } = this.queue.shift()!;
      const abort = new AbortController();
      this.underway.set(run, { version, abort });
      void this.ask(run, version, language, abort);
    }
  }

  private async ask(run: string, version: string, language: Language, abort: AbortController): Promise<void> {
    try {
      const findings = await this.api.findings(run, this.baseline, language, abort.signal);
      if (abort.signal.aborted) return;
      this.known.set(run, { version, findings });
      this.failed.delete(run);
    } catch (error) {
      if (isAbort(error) || abort.signal.aborted) return;
      this.failed.set(run, {
        version,
        why: error instanceof ApiError ? error.message : text.banner.notShown,
      });
    }
    this.underway.delete(run);
    this.tell();
    this.next();
  }

  /** Of these runs nothing is to be said any more: the server finds nothing wrong with them. */
  clear(runs: Iterable<string>): void {
    for (const run of runs) this.known.delete(run);
  }

  /** Tries again what failed. */
  retry(): void {
    this.failed.clear();
  }

  private tell(): void {
    this.onChange({
      findings: new Map([...this.known].map(([run, { findings }]) => [run, findings])),
      unchecked: new Map([...this.failed].map(([run, { why }]) => [run, why])),
      checking: this.queue.length + this.underway.size,
    });
  }
}
