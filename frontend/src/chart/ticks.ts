/** Tick positions and their labels: pure functions of a range and of how many labels have room. */
import {
  formatClock,
  formatCount,
  formatDay,
  formatExponent,
  formatFixed,
  formatShort,
  superscript,
} from "../format";
import { isDuration, type Transform, type XAxis } from "../roles";
import type { XScale } from "./xscale";

export interface Tick {
  /** Where, in the axis' own (transformed) units. */
  readonly at: number;
  readonly label: string;
}

/** 1, 2, 2.5 or 5 times a power of ten, so that at most `most` steps fit into `span`. */
export function niceStep(span: number, most: number, steps: readonly number[] = [1, 2, 2.5, 5, 10]): number {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const m of steps) if (m * power >= rough * 0.999999) return m * power;
  return 10 * power;
}

function multiples(lo: number, hi: number, step: number): number[] {
  if (!(step > 0) || !(hi >= lo)) return [];
  const slack = step * 1e-6;
  const values: number[] = [];
  const first = Math.ceil((lo - slack) / step);
  for (let i = first; i * step <= hi + slack && values.length < 1000; i++) values.push(i * step);
  return values;
}

/** How many decimals it takes to write multiples of `step` exactly. */
function decimalsOf(step: number): number {
  let n = 0;
  while (n < 8 && Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) > 1e-6 * 10 ** n * step) n++;
  return n;
}

export function linearTicks(lo: number, hi: number, most: number): Tick[] {
  const size = Math.max(Math.abs(lo), Math.abs(hi));
  if (size >= 1e4 && size < 1e7) {
    const step = niceStep(hi - lo, most);
    return multiples(lo, hi, step).map((at) => ({ at, label: countLabel(at, step, size) }));
  }
  const exponents = size >= 1e7 || size < 1e-3;
  // 1.75e23 is too wide for the axis.
  const step = exponents ? niceStep(hi - lo, most, [1, 2, 5, 10]) : niceStep(hi - lo, most);
  const decimals = decimalsOf(step);
  return multiples(lo, hi, step).map((v) => ({
    at: v,
    label: exponents ? (v === 0 ? "0" : formatExponent(v)) : formatFixed(v, decimals),
  }));
}

export function learningRateTicks(lo: number, hi: number, most: number): Tick[] {
  const step = niceStep(hi - lo, most);
  const plain = Math.max(Math.abs(lo), Math.abs(hi)) >= 0.1;
  return multiples(lo, hi, step).map((v) => ({
    at: v,
    label: Math.abs(v) < step * 1e-6 ? "0" : plain ? v.toFixed(decimalsOf(step)) : formatExponent(v),
  }));
}

/** 0.1 1 10 100, then 10ⁿ. Under a decade also 2 and 5 times the powers. */
export function log10Ticks(lo: number, hi: number, most: number): Tick[] {
  const stride = Math.max(1, Math.ceil((hi - lo) / Math.max(1, most)));
  const powers = multiples(lo, hi, stride);
  if (powers.length >= 2) return powers.map((e) => ({ at: e, label: decade(Math.round(e)) }));
  const fine: Tick[] = [];
  for (let e = Math.floor(lo); e <= Math.ceil(hi); e++) {
    for (const m of [1, 2, 5]) {
      const at = e + Math.log10(m);
      if (at >= lo - 1e-9 && at <= hi + 1e-9) fine.push({ at, label: labelOf(m, e) });
    }
  }
  if (fine.length >= 2) {
    const every = Math.ceil(fine.length / Math.max(1, most));
    return fine.filter((_, i) => i % every === 0);
  }
  // Less than a factor of two: plain values in between.
  return linearTicks(10 ** lo, 10 ** hi, Math.max(1, Math.min(most, 3)))
    .filter((t) => t.at > 0)
    .map((t) => ({ at: Math.log10(t.at), label: t.label }));
}

const decade = (e: number): string =>
  e >= -1 && e <= 2 ? String(10 ** Math.max(e, 0) / (e < 0 ? 10 : 1)) : `10${superscript(e)}`;

function labelOf(m: number, e: number): string {
  if (m === 1) return decade(e);
  if (e < -3 || e > 3) return formatExponent(m * 10 ** e, 1);
  return e < 0 ? (m * 10 ** e).toFixed(-e) : formatCount(m * 10 ** e);
}

export function log2Ticks(lo: number, hi: number, most: number): Tick[] {
  let stride = 1;
  while (multiples(lo, hi, stride).length > Math.max(2, most)) stride *= 2;
  return multiples(lo, hi, stride).map((e) => ({ at: e, label: `2${superscript(Math.round(e))}` }));
}

export function yTicks(transform: Transform, isRate: boolean, lo: number, hi: number, most: number): Tick[] {
  if (transform === "log10") return log10Ticks(lo, hi, most);
  if (transform === "log2") return log2Ticks(lo, hi, most);
  return isRate ? learningRateTicks(lo, hi, most) : linearTicks(lo, hi, most);
}

/** Positions on the axis, in its own units (logarithms on a log axis). */
export function xTicks(x: XScale, most: number): Tick[] {
  const { axis, log, window } = x;
  if (!(window.to > window.from)) return [];
  return log ? logXTicks(x, most) : linearXTicks(axis, window.from, window.to, most);
}

export function linearXTicks(axis: XAxis, lo: number, hi: number, most: number): Tick[] {
  if (!(hi > lo)) return [];
  if (axis === "wall") return clockTicks(lo, hi, most);
  if (isDuration(axis)) return durationTicks(lo, hi, most);
  const whole = axis !== "epoch";
  const step = whole ? Math.max(1, Math.ceil(niceStep(hi - lo, most))) : niceStep(hi - lo, most);
  const values = multiples(lo, hi, step);
  return values.map((at) => ({ at, label: countLabel(at, step, Math.max(Math.abs(lo), Math.abs(hi))) }));
}

/** Powers of ten, with 2 and 5 times those where there is room; times at the units' own steps. */
function logXTicks({ axis, window: { from, to }, ends: [lo, hi] }: XScale, most: number): Tick[] {
  const time = isDuration(axis);
  if (to / from < 4) {
    return linearXTicks(axis, from, to, most)
      .filter((t) => t.at > 0)
      .map((t) => ({ at: Math.log10(t.at), label: t.label }));
  }
  for (const each of time ? [LOG_DURATIONS] : [[1, 2, 5], [1]]) {
    const values = time ? each : powersOfTen(lo, hi, each);
    const inside = values.filter((v) => v >= from * 0.999 && v <= to * 1.001);
    if (inside.length > most && each.length > 1 && !time) continue;
    const every = Math.max(1, Math.ceil(inside.length / most));
    return inside
      .filter((_, i) => i % every === 0)
      .map((v) => ({ at: Math.log10(v), label: time ? durationLabel(v) : formatShort(v) }));
  }
  return [];
}

function powersOfTen(lo: number, hi: number, times: readonly number[]): number[] {
  const values: number[] = [];
  for (let e = Math.floor(lo); e <= Math.ceil(hi); e++) for (const m of times) values.push(m * 10 ** e);
  return values;
}

const COUNT_UNITS: readonly [from: number, by: number, unit: string][] = [
  [1e13, 1e12, "T"],
  [1e10, 1e9, "B"],
  [1e7, 1e6, "M"],
  [1e4, 1e3, "k"],
  [0, 1, ""],
];

/** One unit for the whole axis: k from 10,000 up, then M, B, T. */
function countLabel(v: number, step: number, size: number): string {
  // 1,000,002 reads better than 1000.002k.
  const [, by, unit] = COUNT_UNITS.find(
    ([from, by]) => by === 1 || (size >= from && decimalsOf(step / by) <= 2),
  )!;
  if (Math.abs(v) < step * 1e-6) return "0";
  const decimals = Math.min(decimalsOf(step / by), decimalsOf(v / by));
  return `${formatFixed(v / by, decimals)}${unit}`;
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const CLOCK_STEPS = [
  1,
  2,
  5,
  10,
  15,
  30,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
  14 * DAY,
  28 * DAY,
  91 * DAY,
  182 * DAY,
  364 * DAY,
];

function clockTicks(lo: number, hi: number, most: number): Tick[] {
  if (hi - lo < most) {
    // Below a second a tick: fractions, as seconds.
    const step = niceStep(hi - lo, most);
    if (step < 1)
      return multiples(lo, hi, step).map((at) => ({
        at,
        label: `${formatClock(at)}${(at % 1).toFixed(3).slice(1)}`,
      }));
  }
  const step = CLOCK_STEPS.find((s) => (hi - lo) / s <= most) ?? 364 * DAY;
  // Ticks fall on round local times, so shift by the zone's offset (taken once: a DST change inside
  // the window moves labels by an hour, never points).
  const shift = -new Date(lo * 1000).getTimezoneOffset() * 60;
  return multiples(lo + shift, hi + shift, step).map((local) => {
    const at = local - shift;
    const midnight = Math.abs(local % DAY) < 0.5;
    return { at, label: midnight || step >= DAY ? formatDay(at) : formatClock(at, step < MINUTE) };
  });
}

const DURATION_UNITS: readonly [below: number, by: number, unit: string][] = [
  [3 * MINUTE, 1, "s"],
  [3 * HOUR, MINUTE, "min"],
  [4 * DAY, HOUR, "h"],
  [Number.POSITIVE_INFINITY, DAY, "d"],
];

const LOG_DURATIONS = [
  0.01, 0.1, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 259_200, 604_800,
  2_592_000,
];

function durationLabel(s: number): string {
  const [, by, unit] = [...DURATION_UNITS_FROM].find(([from]) => s >= from)!;
  return `${s / by} ${unit}`;
}
const DURATION_UNITS_FROM: readonly [from: number, by: number, unit: string][] = [
  [DAY, DAY, "d"],
  [HOUR, HOUR, "h"],
  [MINUTE, MINUTE, "min"],
  [0, 1, "s"],
];

function durationTicks(lo: number, hi: number, most: number): Tick[] {
  const size = Math.max(Math.abs(lo), Math.abs(hi));
  const [, by, unit] = DURATION_UNITS.find(([below]) => size < below)!;
  const step = niceStep((hi - lo) / by, most);
  const decimals = decimalsOf(step);
  return multiples(lo / by, hi / by, step).map((v) => ({
    at: v * by,
    label: Math.abs(v) < step * 1e-6 ? "0" : `${v.toFixed(decimals)} ${unit}`,
  }));
}
