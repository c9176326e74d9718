/** Every sentence and label a user reads, in one place, so that another language can stand beside it. */
import { formatAge, formatCount } from "./format";
import type { OverlayRole, Role, XAxis } from "./roles";
import type { Mode, YRange } from "./state";

const plural = (n: number, one: string, many = `${one}s`): string =>
  `${formatCount(n)} ${n === 1 ? one : many}`;
const list = (parts: readonly string[]): string =>
  parts.length < 2 ? (parts[0] ?? "") : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;

const ROLE_NAMES: Record<Role, string> = {
  loss: "loss",
  loss_ema: "smoothed loss",
  eval_loss: "evaluation loss",
  accuracy: "accuracy",
  eval_accuracy: "evaluation accuracy",
  lr: "learning rate",
  grad_norm: "grad norm",
  loss_scale: "loss scale",
  overflow: "overflow",
  throughput: "throughput",
  step_time: "step time",
  epoch: "epoch",
  tokens: "tokens",
  samples: "samples",
  reward: "reward",
  kl: "KL divergence",
  clip_fraction: "clip fraction",
};

export const text = {
  title: "Training Health",
  list,
  role: (role: Role): string => ROLE_NAMES[role] ?? role,
  axisTitle: { loss: "loss", grad_norm: "grad norm", lr: "lr", loss_scale: "loss scale" } satisfies Record<
    OverlayRole,
    string
  >,
  x: {
    label: "x",
    title: "What the x axis counts",
    names: {
      step: "Step",
      wall: "Wall time",
      relative: "Relative",
      epoch: "Epoch",
      tokens: "Tokens",
      samples: "Samples",
    } satisfies Record<XAxis, string>,
    caption: {
      step: "step",
      wall: "time",
      relative: "since start",
      epoch: "epoch",
      tokens: "tokens",
      samples: "samples",
    } satisfies Record<XAxis, string>,
    unavailable: "none of the chosen runs logged what this axis needs",
  },
  smoothing: {
    label: "smoothing",
    title: "Exponential moving average over all logged points; 0 shows them as they are",
    off: "off",
  },
  reload: "Reload the data",
  live: (age: string) => `live · ${age} ago`,
  lastEvent: (age: string) => `last event ${age} ago`,
  theme: (next: string) => `Switch to ${next} colours`,
  runs: {
    heading: "Runs",
    filter: "filter runs (regex)",
    filterLabel: "Filter runs by regular expression",
    badRegex: (why: string) => `Not a regular expression (${why || "cannot be read"}): all runs are shown.`,
    chosen: (n: number, all: number) => `${formatCount(n)} of ${formatCount(all)} selected`,
    none: "no runs yet",
    noMatch: "No run matches this filter.",
    selectVisible: "select visible",
    selectNone: "none",
    prefix: "all begin with",
    empty:
      "Runs appear here as soon as an event file holds a loss, a learning rate, a gradient norm or a loss scale.",
    toggle: (run: string) => `Show ${run}`,
    only: (run: string) => `${run}\nClick to show only this run`,
    withoutMetrics: (n: number) => `${plural(n, "run")} without training metrics`,
    notes: (n: number) => `${plural(n, "note")} about this run`,
  },
  status: {
    running: (age: string) => `running: last event ${age} ago`,
    ended: (age: string) => `ended: last event ${age} ago`,
    stalled: (age: string) => `stalled: no event for ${age}`,
    unknown: (age: string) => `last event ${age} ago`,
  },
  verdict: { warning: "warning", critical: "critical" },
  chart: {
    axes: "Axes",
    modes: { lanes: "Lanes", merged: "Merged" } satisfies Record<Mode, string>,
    modeTitles: {
      lanes: "One zone a metric, under one x axis",
      merged: "All metrics in one frame, each on its own axis",
    } satisfies Record<Mode, string>,
    yRange: "y range",
    yRanges: { auto: "auto", full: "full", robust: "robust" } satisfies Record<YRange, string>,
    yRangeTitle:
      "full shows every point; robust leaves out the most extreme ones and says how many; auto is full unless those would flatten all others",
    smoothed: (smoothing: number) => `loss, EMA ${formatSmoothing(smoothing)}`,
    unsmoothed: "loss, as logged",
    band: "raw, min–max per pixel",
    raw: "raw",
    superseded: "superseded by a restart",
    log10: "log",
    log2: "log₂",
    overflowTicks: "ticks below = overflow",
    nonFiniteTicks: "red ticks = NaN or Inf",
    overflow: "overflow",
    notFinite: (role: string, kind: string) => `${role} ${kind}`,
    clippedAbove: (exact: boolean, n: number, max: string) =>
      `▲ ${exact ? "" : "at least "}${plural(n, "point")} above, up to ${max}`,
    clippedBelow: (exact: boolean, n: number, min: string) =>
      `▼ ${exact ? "" : "at least "}${plural(n, "point")} below, down to ${min}`,
    nonPositive: (n: number) => `${plural(n, "value")} ≤ 0 not on a log axis`,
    allNonFinite: (role: string, what: string) => `${role} has no finite value: ${what}`,
    nothingHere: (role: string) => `${role}: nothing logged in this window`,
    resetZoom: "reset zoom",
    resetTitle: "Show everything again (double-click, Esc)",
    drawLimit: (drawn: number, all: number) =>
      `${formatCount(drawn)} of ${formatCount(all)} chosen runs are drawn: those with findings first, then the newest.`,
    drawAll: "draw all",
    loading: "Reading the logs…",
    help: "Drag to zoom, double-click or Esc to reset, shift-drag to pan, arrow keys to move the cursor.",
    summary: (runs: string, roles: string, axis: string, from: string, to: string, values: string) =>
      `Overlay of ${roles} for ${runs}, ${axis} ${from} to ${to}.${values ? ` ${values}` : ""}`,
    lastValue: (run: string, role: string, value: string) => `${run}: last ${role} ${value}.`,
  },
  marks: {
    restart: (run: string, at: string, steps: string) => `${run} restarted at ${at}${steps}.`,
    superseded: (from: string, to: string) => `; what it had logged from ${from} to ${to} was superseded`,
    nonFinite: (run: string, role: string, what: string, from: string, to: string) =>
      from === to
        ? `${run}: ${role} was ${what} at ${from}.`
        : `${run}: ${role} was ${what} between ${from} and ${to}.`,
    points: (n: number, kind: string) => `${kind} at ${plural(n, "logged point")}`,
  },
  tooltip: {
    logged: "as logged, not smoothed",
    run: "run",
    at: "at",
    superseded: "superseded",
    nearest: (shown: number, all: number) => `nearest ${formatCount(shown)} of ${formatCount(all)} here`,
    ended: (n: number) => `ended before: ${formatCount(n)}`,
    notLogged: "–",
  },
  missing: {
    role: (role: string, runs: string, hint: string) => `No ${role} in ${runs}.${hint ? ` ${hint}` : ""}`,
    run: (run: string, why: string) => `${run}: ${why}`,
    all: (n: number) => (n === 1 ? "this run" : `any of these ${formatCount(n)} runs`),
    some: (runs: readonly string[]) =>
      list(runs.length > 4 ? [...runs.slice(0, 3), `${formatCount(runs.length - 3)} more`] : runs),
    more: (n: number) => `${formatCount(n)} more`,
    less: "less",
    heading: "Notes",
  },
  empty: {
    title: "No training metrics found yet",
    looked: (directories: number, files: number, tags: number) =>
      `${plural(directories, "run directory", "run directories")}, ${plural(files, "event file")}, ${plural(tags, "tag")}.`,
    lookedIn: "Looked in",
    lookedEverywhere: "Looked through the log directory",
    noEvents: "There is no event file to read.",
    noTags: "The event files hold no scalar yet.",
    unknownTags: "None has a name that is known as loss, learning rate, gradient norm or loss scale.",
    again: "Looking again every 30 s.",
    callbackTitle: "Log them with the callback",
    callbackText: [
      "MindSpore: one line in",
      ". It writes ordinary scalars, so the Scalars tab shows them too.",
    ] as const,
    logdirTitle: "Check the log directory",
    logdirText: [
      "Point",
      "at the directory that contains the run directories, as seen by the machine TensorBoard runs on. A run is a directory with an",
      "file in it.",
    ] as const,
    doctorTitle: "Check the directory from a shell",
    doctorText: "Says for every run what was read, what was skipped and why.",
    namesTitle: "Use names the tab knows",
    namesText: ["Any framework's event files will do. Scalars named like", "are recognised."] as const,
    copy: "copy",
    copied: "copied",
    nothingChosenTitle: "No run is selected",
    nothingChosen:
      "Tick a run on the left to see its loss, learning rate, grad norm and loss scale in one chart.",
    showNewest: "show the newest run",
    otherRolesTitle: (n: number) =>
      n === 1 ? "This run has nothing the overlay draws" : "The selected runs have nothing the overlay draws",
    otherRoles:
      "The overlay draws training loss, learning rate, grad norm and loss scale. What was logged is:",
    nothingYet: "Nothing that the overlay draws is logged yet.",
    columns: { run: "Run", metric: "Metric", tag: "Tag", points: "Points", last: "Last value" },
    moreRows: (n: number) => `and ${plural(n, "more")}`,
  },
  fault: {
    title: "This picture could not be drawn",
    what: "That is a fault of the tab, not of the training. Choose other runs or reload; the browser's console has the details for a report.",
  },
  banner: {
    kept: (time: string) => `The picture is the one of ${time}.`,
    retry: (seconds: number) => `Trying again in ${seconds} s.`,
    retrying: "Trying again…",
    now: "try now",
  },
  age: formatAge,
} as const;

export const formatSmoothing = (s: number): string => (s === 0 ? "off" : s.toFixed(3).replace(/0$/, ""));

/** A path as a shell takes it. */
const quoted = (path: string): string =>
  /^[\w./:@%+=-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

export const DOCTOR_COMMAND = (logdir: string): string => `tb-health doctor ${quoted(logdir || "LOGDIR")}`;

export const CALLBACK_SNIPPET = (logdir: string): string =>
  `from tb_mindformers_plugin import TrainingHealthCallback
model.train(epochs, dataset,
            callbacks=[TrainingHealthCallback(log_dir="${logdir || "logs"}/my_run")])`;
