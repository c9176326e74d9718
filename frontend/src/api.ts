/** The plugin's HTTP routes, typed. Only URLs relative to this module, so any path prefix works. */
import { DecodeError, decodeSeries, type SeriesAnswer } from "./decode";
import type { Language } from "./language";
import { type Given, givenPairs, type Role, type XAxis } from "./roles";
import { text } from "./text";

export type Status = "running" | "ended" | "stalled" | "unknown";
/** From worst to best. */
export const SEVERITIES = ["critical", "warning", "info"] as const;
export type Severity = (typeof SEVERITIES)[number];
export type Verdict = "ok" | Severity;
/** JSON has no NaN or infinity: the server spells them out. */
export type JsonNumber = number | "NaN" | "Infinity" | "-Infinity" | null;

export interface RoleInfo {
  readonly tag: string;
  readonly unit: string;
  /** Null where the run was listed without being read: a large logdir is. */
  readonly points: number | null;
  readonly first_step: number;
  readonly last_step: number;
  readonly last_value: JsonNumber;
}

export interface HealthEvent {
  readonly kind: "alert" | "action";
  readonly step: number;
  readonly severity: Severity;
  readonly message: string;
}

export interface RunInfo {
  readonly run: string;
  readonly source: "manifest" | "alias";
  readonly status: Status;
  /** Seconds since the Unix epoch; 0 where no clock was ever right. */
  readonly last_wall_time: number;
  /** Null where the run was not read yet. */
  readonly verdict: Verdict | null;
  readonly total_steps: number | null;
  /** How many findings of each severity; null where the run was not read yet. */
  readonly findings: Readonly<Record<Severity, number>> | null;
  /** Of late; null where no clock or no two steps are known. */
  readonly seconds_per_step: number | null;
  /** Sentences; those of the worst findings come first. */
  readonly notes: readonly string[];
  /** How many of the notes those are. */
  readonly notes_of_findings: number;
  readonly missing: readonly { readonly role: Role; readonly hint: string }[];
  readonly axes: readonly XAxis[];
  /** Steps at which a training was taken up again. */
  readonly restarts: readonly number[];
  /** What the run's own callback found, and did, while it trained. */
  readonly events: readonly HealthEvent[];
  /** Names of all ranks of this training, its own included; empty where it has but one. */
  readonly ranks: readonly string[];
  readonly roles: Partial<Record<Role, RoleInfo>>;
}

/** What a rule found in a run; docs/http-api.md. */
export interface Finding {
  readonly rule: string;
  readonly severity: Severity;
  readonly run: string;
  readonly role: Role;
  readonly tag: string;
  readonly first_step: number;
  readonly last_step: number;
  readonly peak_step: number;
  /** Where first, last and peak step lie on the other axes that the run has. */
  readonly at?: Partial<Record<XAxis, readonly [first: number, last: number, peak: number]>>;
  readonly message: string;
  readonly advice: string;
  readonly evidence: Readonly<Record<string, unknown>>;
}

export interface Searched {
  readonly logdir: string;
  readonly directories: number;
  readonly event_files: number;
  readonly tags: number;
  /** Of these, how many play no role anywhere. */
  readonly without_role: number;
  /** What could not be read, a sentence each. */
  readonly problems: readonly string[];
}

export interface RunsAnswer {
  readonly searched: Searched;
  readonly runs: readonly RunInfo[];
  readonly without_metrics: readonly string[];
}

/** A scalar that plays no role in some runs; the numbers are those of the newest of them. */
export interface TagInfo {
  readonly tag: string;
  readonly runs: number;
  readonly points: number | null;
  readonly last_step: number;
  readonly last_value: JsonNumber;
  /** What its name speaks of; nobody takes it for that yet. */
  readonly suggested: Role | null;
}

export interface SeriesQuery {
  readonly runs: readonly string[];
  readonly roles: readonly Role[];
  readonly x: XAxis;
  readonly from: number | null;
  readonly to: number | null;
  readonly buckets: number;
  /** Buckets of equal width on a logarithmic axis. */
  readonly log_x: boolean;
  readonly smoothing: number;
}

/** What is to be compared, and which window of it is to be drawn; docs/http-api.md. */
export interface CompareQuery {
  readonly baseline: string;
  readonly run: string;
  readonly role: Role;
  readonly x: XAxis;
  readonly tolerance: number;
  readonly absolute: number;
  readonly from: number | null;
  readonly to: number | null;
  readonly buckets: number;
  readonly smoothing: number;
  readonly lang: Language;
}

/** A window of one curve; what is not finite is null. */
export interface ComparedCurve {
  readonly raw: boolean;
  readonly x: readonly number[];
  readonly min: readonly (number | null)[];
  readonly max: readonly (number | null)[];
  readonly last: readonly (number | null)[];
  readonly smoothed: readonly (number | null)[] | null;
}

export interface Setting {
  readonly name: string;
  /** Any JSON; null where the run does not say. */
  readonly value: unknown;
  readonly baseline: unknown;
}

/** A run against its baseline. */
export interface Comparison {
  readonly verdict: "same" | "ratio" | "offset" | "differs";
  readonly title: string;
  readonly message: string;
  readonly notes: readonly string[];
  readonly errors: { readonly points: number; readonly parted_step: number | null };
  /** Where those steps lie on the x axis. */
  readonly at: { readonly parted: number | null };
  readonly lr: {
    readonly same: boolean;
    readonly first_step: number | null;
    readonly run: JsonNumber;
    readonly baseline: JsonNumber;
  } | null;
  readonly seconds_per_step: { readonly run: number; readonly baseline: number } | null;
  readonly settings: readonly Setting[];
  readonly difference: ComparedCurve;
  readonly relative_error: ComparedCurve;
}

/** A chart of Custom Scalars, and what it will draw. */
export interface LayoutChart {
  readonly title: string;
  readonly kind: "lines" | "margin";
  readonly roles: readonly Role[];
  readonly tags: readonly string[];
  readonly runs: Readonly<Record<string, readonly string[]>>;
  /** What it will draw besides, because the tag plays another role there. */
  readonly strangers: Readonly<Record<string, readonly string[]>>;
}

export interface LayoutPreview {
  readonly categories: readonly {
    readonly title: string;
    readonly closed: boolean;
    readonly charts: readonly LayoutChart[];
  }[];
  readonly file: { readonly name: string; readonly base64: string };
  /** Null where TensorBoard has no log directory. */
  readonly command: string | null;
}

export class ApiError extends Error {
  constructor(
    message: string,
    readonly hint: string,
    /** Worth another try later without any change: the server is gone or stumbled. */
    readonly passing: boolean,
  ) {
    super(message);
  }
}

export interface Api {
  runs(language: Language, signal: AbortSignal): Promise<RunsAnswer>;
  series(query: SeriesQuery, signal: AbortSignal): Promise<SeriesAnswer>;
  findings(
    run: string,
    baseline: string | null,
    language: Language,
    signal: AbortSignal,
  ): Promise<readonly Finding[]>;
  compare(query: CompareQuery, signal: AbortSignal): Promise<Comparison>;
  layout(signal: AbortSignal): Promise<LayoutPreview>;
  tags(signal: AbortSignal): Promise<readonly TagInfo[]>;
  /** Where all points of these runs are to be had as a file. */
  exportUrl(runs: readonly string[], format: "csv" | "json"): string;
}

/** `…/data/plugin/training_health/`, from where this module itself was served (`static/` below it). */
export function routesBase(moduleUrl: string): URL {
  return new URL("../", moduleUrl);
}

/** `given`: what the user says of tags by now; told with every question. */
export function createApi(
  base: URL,
  fetcher: typeof fetch = (...a) => fetch(...a),
  given: () => Given = () => ({}),
): Api {
  const route = (name: string, asked: Iterable<readonly [string, string]> = []): URL => {
    const pairs = [...asked, ...givenPairs(given()).map((pair) => ["given", pair] as const)];
    const query = new URLSearchParams(pairs.map(([key, value]) => [key, value])).toString();
    return new URL(query === "" ? name : `${name}?${query}`, base);
  };
  return {
    async runs(language, signal) {
      const response = await ask(fetcher, route("runs", [["lang", language]]), { signal });
      return readable(async () => withDefaults(await response.json()));
    },
    async series(query, signal) {
      const response = await ask(fetcher, new URL("series", base), {
        signal,
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ ...query, given: givenPairs(given()), format: "binary" }),
      });
      return readable(async () => decodeSeries(await response.arrayBuffer()));
    },
    async findings(run, baseline, language, signal) {
      const asked = Object.entries({ run, ...(baseline !== null && { baseline }), lang: language });
      const response = await ask(fetcher, route("findings", asked), { signal });
      return readable(async () => findingsOf(await response.json()));
    },
    async compare(query, signal) {
      const said = Object.entries(query).filter(([, value]) => value !== null);
      const asked = said.map(([key, value]) => [key, String(value)] as const);
      const response = await ask(fetcher, route("compare", asked), { signal });
      return readable(() => response.json());
    },
    async layout(signal) {
      const response = await ask(fetcher, route("layout"), { signal });
      return readable(() => response.json());
    },
    async tags(signal) {
      // As they are by themselves: those that were given a role are to be listed as well.
      const response = await ask(fetcher, new URL("tags", base), { signal });
      return readable(async () => tagsOf(await response.json()));
    },
    exportUrl: (runs, format) =>
      route("export", [...runs.map((run) => ["run", run] as const), ["format", format]]).href,
  };
}

function findingsOf(answer: { findings?: unknown }): readonly Finding[] {
  if (!Array.isArray(answer.findings)) throw new DecodeError("the list of findings is missing");
  return answer.findings;
}

function tagsOf(answer: { tags?: unknown }): readonly TagInfo[] {
  if (!Array.isArray(answer.tags)) throw new DecodeError("the list of tags is missing");
  return answer.tags;
}

/** A run lacking an optional field must not take the whole list down. */
function withDefaults(answer: Partial<RunsAnswer>): RunsAnswer {
  if (!Array.isArray(answer.runs)) throw new DecodeError("the list of runs is missing");
  return {
    searched: {
      logdir: "",
      directories: 0,
      event_files: 0,
      tags: 0,
      without_role: 0,
      problems: [],
      ...answer.searched,
    },
    without_metrics: answer.without_metrics ?? [],
    runs: answer.runs.map((run) => ({
      ...run,
      last_wall_time: run.last_wall_time ?? 0,
      notes: run.notes ?? [],
      notes_of_findings: run.notes_of_findings ?? 0,
      missing: run.missing ?? [],
      axes: run.axes ?? ["step"],
      restarts: run.restarts ?? [],
      events: run.events ?? [],
      ranks: run.ranks ?? [],
      findings: run.findings ?? null,
      seconds_per_step: run.seconds_per_step ?? null,
      roles: run.roles ?? {},
    })),
  };
}

async function ask(fetcher: typeof fetch, url: URL, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetcher(url, { credentials: "same-origin", ...init });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(text.banner.gone, text.banner.goneHint, true);
  }
  if (response.ok) return response;
  const { error, hint } = await errorBody(response);
  throw new ApiError(error, hint, response.status >= 500 || response.status === 429);
}

async function errorBody(response: Response): Promise<{ error: string; hint: string }> {
  const plain = text.banner.http(response.status);
  try {
    const body = await response.json();
    return {
      error: typeof body.error === "string" ? body.error : plain,
      hint: typeof body.hint === "string" ? body.hint : "",
    };
  } catch {
    return { error: plain, hint: text.banner.httpHint };
  }
}

async function readable<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (isAbort(error)) throw error;
    const why = error instanceof DecodeError ? error.message : text.banner.cutOff;
    throw new ApiError(text.banner.unreadable(why), text.banner.unreadableHint, true);
  }
}

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";
