/** What a metric means to training, and how the overlay draws it. */

export const ROLES = [
  "loss",
  "loss_ema",
  "eval_loss",
  "accuracy",
  "eval_accuracy",
  "lr",
  "grad_norm",
  "loss_scale",
  "overflow",
  "throughput",
  "step_time",
  "epoch",
  "tokens",
  "samples",
  "reward",
  "kl",
  "clip_fraction",
] as const;

/** What two runs of one role come to. */
export const DERIVED_ROLES = ["difference", "relative_error"] as const;
export type DerivedRole = (typeof DERIVED_ROLES)[number];

export type Role = (typeof ROLES)[number] | DerivedRole;

/** What can be drawn as a curve, in the order of the stacked panels. */
export const CHART_ROLES = [
  "loss",
  "grad_norm",
  "eval_loss",
  "lr",
  "throughput",
  "loss_scale",
  "step_time",
  "accuracy",
  "eval_accuracy",
  "reward",
  "kl",
  "clip_fraction",
] as const satisfies readonly Role[];
export type LoggedRole = (typeof CHART_ROLES)[number];
export type ChartRole = LoggedRole | DerivedRole;

/** What a tag can be said to mean. */
export const GIVABLE_ROLES = [
  ...CHART_ROLES,
  "overflow",
  "epoch",
  "tokens",
  "samples",
] as const satisfies readonly Role[];
export type GivableRole = (typeof GIVABLE_ROLES)[number];

/** Tag -> the role that the user says it plays. */
export type Given = Readonly<Record<string, GivableRole>>;

/** A tag may be called like anything, also like what every object has. */
export const roleGiven = (given: Given, tag: string): GivableRole | null =>
  Object.hasOwn(given, tag) ? given[tag]! : null;

/** As the server is told. */
export const givenPairs = (given: Given): string[] =>
  Object.entries(given).map(([tag, role]) => `${role}:${tag}`);

/** The four the overlay has an axis for, in the order of its lanes. */
export const OVERLAY_ROLES = [
  "loss",
  "grad_norm",
  "lr",
  "loss_scale",
] as const satisfies readonly ChartRole[];
export type OverlayRole = (typeof OVERLAY_ROLES)[number];

export type Transform = "linear" | "log10" | "log2";

export interface RoleStyle {
  /** The y scale it has by itself. */
  readonly transform: Transform;
  /** A curve is noisy: it gets a min–max band and an EMA. A held value is drawn as steps. */
  readonly shape: "curve" | "steps";
  /** A lone peak is worth a stick up to its value: where up is worse. */
  readonly peaks: boolean;
  /** An evaluation has few points, each of them an average: smoothing them only makes them late. */
  readonly smooth: boolean;
  /** Share of the free height in Lanes. */
  readonly share: number;
  /** Stretch of the frame's height (from the bottom) that its data fill in Merged, so lines stay apart. */
  readonly merged: readonly [number, number];
  /** CSS px in Merged. */
  readonly width: number;
  readonly dash: readonly number[];
}

const CURVE: RoleStyle = {
  transform: "linear",
  shape: "curve",
  peaks: false,
  smooth: true,
  share: 20,
  merged: [0.03, 0.97],
  width: 1.5,
  dash: [],
};
const EVALUATION: RoleStyle = { ...CURVE, smooth: false };
const WORSE_ABOVE: RoleStyle = { ...CURVE, peaks: true };

export const ROLE_STYLE: Record<ChartRole, RoleStyle> = {
  loss: { ...WORSE_ABOVE, share: 55, width: 2 },
  grad_norm: { ...WORSE_ABOVE, transform: "log10", share: 18, merged: [0.26, 0.6], width: 1 },
  lr: { ...CURVE, shape: "steps", smooth: false, share: 12, merged: [0.03, 0.55], dash: [7, 4] },
  loss_scale: {
    ...CURVE,
    transform: "log2",
    shape: "steps",
    smooth: false,
    share: 15,
    merged: [0.64, 0.84],
    dash: [2, 2.5],
  },
  eval_loss: { ...EVALUATION, peaks: true },
  eval_accuracy: EVALUATION,
  accuracy: CURVE,
  throughput: CURVE,
  step_time: WORSE_ABOVE,
  reward: CURVE,
  kl: WORSE_ABOVE,
  clip_fraction: CURVE,
  difference: { ...CURVE, share: 29 },
  relative_error: { ...CURVE, transform: "log10", share: 29 },
};

/** What the overlay asks the server for: the overflow series becomes ticks in the loss scale's lane. */
export const QUERIED_ROLES: readonly Role[] = [...OVERLAY_ROLES, "overflow"];

/** What each view draws. */
export const rolesOf = (chart: "overlay" | "stacked" | "compare"): readonly LoggedRole[] =>
  chart === "overlay" ? OVERLAY_ROLES : CHART_ROLES;

export const isChartRole = (role: string): role is ChartRole =>
  ([...CHART_ROLES, ...DERIVED_ROLES] as readonly string[]).includes(role);

export const isDerived = (role: string): role is DerivedRole =>
  (DERIVED_ROLES as readonly string[]).includes(role);

export const isOverlayRole = (role: string): role is OverlayRole =>
  (OVERLAY_ROLES as readonly string[]).includes(role);

export const X_AXES = [
  "step",
  "from_start",
  "wall",
  "relative",
  "active",
  "epoch",
  "tokens",
  "samples",
] as const;
export type XAxis = (typeof X_AXES)[number];

/** On which two runs can be laid side by side. */
export const COMPARE_AXES: readonly XAxis[] = ["step", "from_start", "tokens", "samples"];

/** Seconds since a run began. */
export const isDuration = (axis: XAxis): boolean => axis === "relative" || axis === "active";

export const isTime = (axis: XAxis): boolean => axis === "wall" || isDuration(axis);

/** Whole numbers. */
export const isCount = (axis: XAxis): boolean =>
  axis === "step" || axis === "from_start" || axis === "tokens" || axis === "samples";

/** A logarithm of a time of day says nothing. */
export const canBeLog = (axis: XAxis): boolean => axis !== "wall";
