/** Numbers as a person of the field writes them. */
import { type Language, language } from "./language";
import type { ChartRole, XAxis } from "./roles";

const SUPERSCRIPT: Record<string, string> = {
  "-": "⁻",
  "0": "⁰",
  "1": "¹",
  "2": "²",
  "3": "³",
  "4": "⁴",
  "5": "⁵",
  "6": "⁶",
  "7": "⁷",
  "8": "⁸",
  "9": "⁹",
};

export const superscript = (n: number): string => [...String(n)].map((c) => SUPERSCRIPT[c] ?? c).join("");

/** The decay of an EMA: 0.9 → 0.90, 0.999 → 0.999. */
export const formatDecay = (decay: number): string => decay.toFixed(3).replace(/0$/, "");

/** 11219 → 11,219 */
export const formatCount = (n: number): string => Math.round(n).toLocaleString("en-US");

/** 3.0e-4 → 3e-4; 1.7346e-4 → 1.73e-4 */
export function formatExponent(v: number, digits = 3): string {
  const [mantissa, exponent] = v.toExponential(digits - 1).split("e") as [string, string];
  return `${trimZeros(mantissa)}e${exponent.replace("+", "")}`;
}

const trimZeros = (s: string): string => (s.includes(".") ? s.replace(/\.?0+$/, "") : s);

/** Significant digits without an exponent while that stays readable. */
export function formatSignificant(v: number, digits: number): string {
  const size = Math.abs(v);
  if (v === 0) return "0";
  if (size >= 10 ** Math.max(digits, 5) || size < 1e-3) return formatExponent(v, 3);
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return formatFixed(v, Math.min(decimals, 6));
}

/** 1234.5 → 1,234.5: separators from 1,000 on, as in counts. */
export const formatFixed = (v: number, decimals: number): string =>
  Math.abs(v) < 999
    ? v.toFixed(decimals)
    : v.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/** 65536 → 2¹⁶; anything that is no power of two as a plain number. */
export function formatScale(v: number): string {
  if (v === 0) return "0";
  const power = Math.log2(v);
  return v > 0 && Number.isInteger(power) ? `2${superscript(power)}` : formatSignificant(v, 4);
}

/** 3e-4, but 0.15 */
export const formatRate = (v: number): string =>
  v === 0 ? "0" : Math.abs(v) >= 0.1 ? trimZeros(formatSignificant(v, 3)) : formatExponent(v, 3);

export function formatValue(v: number, role: ChartRole): string {
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "+Inf" : "−Inf";
  switch (role) {
    case "loss":
      return formatSignificant(v, 4);
    case "grad_norm":
      return formatSignificant(v, 3);
    case "lr":
      return formatRate(v);
    case "loss_scale":
      return formatScale(v);
    case "throughput":
      return Math.abs(v) >= 1e3 && Math.abs(v) < 1e9 ? formatCount(v) : formatSignificant(v, 4);
    case "difference":
      return signed(v, formatSignificant(Math.abs(v), 3));
    case "relative_error":
      return formatShare(v);
    default:
      return formatSignificant(v, 4);
  }
}

/** A number with the sign of `v`, zero with none. */
export const signed = (v: number, size: string): string => `${v > 0 ? "+" : v < 0 ? "−" : ""}${size}`;

/** 0.0123 → 1.23 %, 0.5 → 50 %; as the server says it. */
export const formatShare = (part: number): string => {
  const percent = part * 100;
  if (percent >= 10 && percent < 1e6) return `${formatCount(percent)} %`;
  const size = percent >= 1e6 || (percent > 0 && percent < 1e-3);
  return `${size ? formatExponent(percent, 2) : trimZeros(formatSignificant(percent, 3))} %`;
};

/** 14500 → 14.5k; 950 → 950; 2.5e9 → 2.5B */
export function formatShort(n: number): string {
  const size = Math.abs(n);
  const cut = (by: number, unit: string) => `${trimZeros((n / by).toFixed(1))}${unit}`;
  if (size >= 9.9995e11) return cut(1e12, "T");
  if (size >= 9.9995e8) return cut(1e9, "B");
  if (size >= 9.9995e5) return cut(1e6, "M");
  if (size >= 9.9995e3) return cut(1e3, "k");
  return Number.isInteger(n) ? formatCount(n) : trimZeros(n.toFixed(2));
}

const UNITS: Record<Language, { s: string; min: string; h: string; d: string; y: string }> = {
  en: { s: "s", min: "min", h: "h", d: "d", y: "y" },
  zh: { s: "秒", min: "分钟", h: "小时", d: "天", y: "年" },
};

/** Seconds → "42 s", "6 min", "3 h", "2 d": one unit, so that ages stay narrow. */
export function formatAge(seconds: number): string {
  const s = Math.max(0, seconds);
  const unit = UNITS[language];
  if (s < 60) return `${Math.floor(s)} ${unit.s}`;
  if (s < 3600) return `${Math.floor(s / 60)} ${unit.min}`;
  if (s < 172_800) return `${Math.floor(s / 3600)} ${unit.h}`;
  if (s < 63_072_000) return `${Math.floor(s / 86_400)} ${unit.d}`;
  return `${Math.floor(s / 31_536_000)} ${unit.y}`;
}

export function formatDuration(seconds: number): string {
  const sign = seconds < 0 ? "−" : "";
  const s = Math.abs(seconds);
  const unit = UNITS[language];
  if (s < 60) return `${sign}${trimZeros(s.toFixed(1))} ${unit.s}`;
  if (s < 3600) return `${sign}${Math.floor(s / 60)} ${unit.min} ${pad(Math.floor(s % 60))} ${unit.s}`;
  return `${sign}${Math.floor(s / 3600)} ${unit.h} ${pad(Math.floor((s % 3600) / 60))} ${unit.min}`;
}

/** What is left of a training, no more exactly than that can be known: "3 h 10 min", "2 d 4 h", "12 min". */
export function formatRough(seconds: number): string {
  const unit = UNITS[language];
  const minutes = Math.max(1, Math.round(seconds / 60));
  if (minutes < 60) return `${minutes} ${unit.min}`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} ${unit.h} ${minutes % 60} ${unit.min}`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} ${unit.d} ${hours % 24} ${unit.h}`;
}

const pad = (n: number): string => String(n).padStart(2, "0");

export function formatClock(epochSeconds: number, seconds = true): string {
  const d = new Date(epochSeconds * 1000);
  const minutes = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  return seconds ? `${minutes}:${pad(d.getSeconds())}` : minutes;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function formatDay(epochSeconds: number): string {
  const d = new Date(epochSeconds * 1000);
  return language === "zh"
    ? `${d.getMonth() + 1}月${d.getDate()}日`
    : `${d.getDate()} ${MONTHS[d.getMonth()]}`;
}

/** A position on the x axis, exactly enough to find the point again. */
export function formatPosition(x: number, axis: XAxis): string {
  switch (axis) {
    case "step":
    case "from_start":
    case "samples":
    case "tokens":
      return formatCount(x);
    case "wall":
      return `${formatDay(x)} ${formatClock(x)}`;
    case "relative":
    case "active":
      return formatDuration(x);
    case "epoch":
      return trimZeros(formatFixed(x, 3));
  }
}
