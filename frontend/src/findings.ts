/** What the rules found in the runs: order, names for links, words for the clipboard, and the stretch to show. */
import { type Finding, type RunInfo, SEVERITIES, type Severity } from "./api";
import { formatCount } from "./format";
import { hashName } from "./palette";
import { text } from "./text";

/** A name for a finding that a link can carry: short whatever the run is called. */
export const findingId = (f: Finding): string =>
  `${f.rule}.${f.first_step}.${hashName(`${f.run}\n${f.tag}`).toString(36)}`;

/** Worst first; then in the order of the runs, then of the steps. */
export function sortFindings(findings: readonly Finding[], runs: readonly string[]): Finding[] {
  const place = new Map(runs.map((run, i) => [run, i]));
  const rank = (s: Severity) => SEVERITIES.indexOf(s);
  return [...findings].sort(
    (a, b) =>
      rank(a.severity) - rank(b.severity) ||
      (place.get(a.run) ?? 0) - (place.get(b.run) ?? 0) ||
      a.first_step - b.first_step,
  );
}

export const countBySeverity = (findings: readonly Finding[]): Record<Severity, number> => {
  const counts = { critical: 0, warning: 0, info: 0 };
  for (const f of findings) counts[f.severity]++;
  return counts;
};

/** The verdict of a run in numbers: how many findings of its worst severity. */
export function worst(run: RunInfo): { severity: Severity; count: number } | null {
  const severity = SEVERITIES.find((s) => (run.findings?.[s] ?? 0) > 0);
  return severity ? { severity, count: run.findings![severity] } : null;
}

/** The runs that have findings. */
export function worstFirst(runs: readonly RunInfo[]): RunInfo[] {
  const rank = (run: RunInfo) => SEVERITIES.indexOf(worst(run)!.severity);
  return runs.filter((run) => worst(run) !== null).sort((a, b) => rank(a) - rank(b));
}

/** What the server says of a run beside its findings, with whose sentences its notes begin. */
export const remarks = (run: RunInfo): readonly string[] => run.notes.slice(run.notes_of_findings);

const RUN = "run:";

/** Whose findings are listed: "selected", "all", or one run's, which may be called like that. */
export const scopeOf = (run: string): string => RUN + run;
export const runOf = (scope: string): string | null =>
  scope.startsWith(RUN) ? scope.slice(RUN.length) : null;

/** Another one where a run has grown, where other series play its roles, or where time has told that it fell silent. */
export const versionOf = (run: RunInfo): string => {
  const series = Object.values(run.roles);
  const counts = SEVERITIES.map((severity) => run.findings?.[severity] ?? 0);
  const lastStep = Math.max(0, ...series.map((of) => of.last_step));
  const tags = series.map((of) => of.tag).join("\n");
  return [run.last_wall_time, lastStep, run.status, ...counts, tags].join(" ");
};

/** Most rules say nothing of a run that is shorter: what spikes is told by the 64 points before it. */
export const POINTS_TO_JUDGE = 64;

/** Points of a run's longest curve; null where it was listed without being read. */
export const pointsOf = (run: RunInfo): number | null => {
  const points = Object.values(run.roles).map((of) => of.points);
  return points.includes(null) ? null : Math.max(0, ...(points as number[]));
};

/** Context on either side, as a part of the stretch; and at least so many steps, for a stretch of one. */
const MARGIN = 0.35;
const FEWEST_STEPS = 40;

/** The steps to show for a finding: its own and what came before and after, within the run's. */
export function stretchOf(f: Finding, run: RunInfo | undefined): { from: number; to: number } {
  const ends = Object.values(run?.roles ?? {});
  const first = ends.length ? Math.min(...ends.map((r) => r.first_step)) : f.first_step;
  const last = ends.length ? Math.max(...ends.map((r) => r.last_step)) : f.last_step;
  const own = f.last_step - f.first_step;
  // A run logged every hundredth step needs more steps around to show any point.
  const margin = Math.max(own * MARGIN, FEWEST_STEPS, (last - first) / 50);
  const from = Math.max(Math.min(first, f.first_step), Math.floor(f.first_step - margin));
  const to = Math.min(Math.max(last, f.last_step), Math.ceil(f.last_step + margin));
  return from < to ? { from, to } : { from: f.first_step - 1, to: f.last_step + 1 };
}

const stepsOf = (f: Finding) => [formatCount(f.first_step), formatCount(f.last_step)] as const;

export const stepsText = (f: Finding): string => text.findings.steps(...stepsOf(f));

/** As a person pastes it into a chat or an issue. */
export const findingsAsText = (findings: readonly Finding[]): string =>
  findings
    .map((f) => {
      const where = text.findings.stepsLabel(...stepsOf(f));
      const said = text.findings.asText(text.findings.severity[f.severity], f.run, where, f.message);
      return `${said}\n  ${text.findings.tryThis} ${f.advice}`;
    })
    .join("\n\n");

export const findingsAsJson = (findings: readonly Finding[]): string => JSON.stringify({ findings }, null, 2);

const COLUMNS = [
  "severity",
  "run",
  "rule",
  "role",
  "tag",
  "first_step",
  "last_step",
  "peak_step",
  "message",
  "advice",
] as const;

export function findingsAsCsv(findings: readonly Finding[]): string {
  const rows = findings.map((f) => COLUMNS.map((c) => quoted(String(f[c]))).join(","));
  return `${[COLUMNS.join(","), ...rows].join("\r\n")}\r\n`;
}

const quoted = (field: string): string =>
  /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
