import { describe, expect, it } from "vitest";
import {
  formatAge,
  formatDuration,
  formatExponent,
  formatPosition,
  formatScale,
  formatShort,
  formatSignificant,
  formatValue,
} from "../src/format";

describe("values", () => {
  it.each([
    [2.0349, "loss", "2.035"],
    [10.9, "loss", "10.90"],
    [123456.7, "loss", "1.23e5"],
    [0, "loss", "0"],
    [-1.5, "loss", "-1.500"],
    [0.3912, "grad_norm", "0.391"],
    [145.2, "grad_norm", "145"],
    [1.7346e-4, "lr", "1.73e-4"],
    [3e-4, "lr", "3e-4"],
    [0, "lr", "0"],
    [0.15, "lr", "0.15"],
    [1.93, "lr", "1.93"],
    [65536, "loss_scale", "2¹⁶"],
    [1, "loss_scale", "2⁰"],
    [0.5, "loss_scale", "2⁻¹"],
    [1000, "loss_scale", "1,000"],
    [Number.NaN, "loss", "NaN"],
    [Number.POSITIVE_INFINITY, "grad_norm", "+Inf"],
    [Number.NEGATIVE_INFINITY, "loss", "−Inf"],
  ] as const)("%s as %s is %s", (value, role, written) => {
    expect(formatValue(value, role)).toBe(written);
  });

  it("drops zeros of the mantissa only", () => {
    expect(formatExponent(1e10)).toBe("1e10");
    expect(formatExponent(2.5e-7)).toBe("2.5e-7");
  });

  it("falls back to a plain number for a scale that is no power of two", () => {
    expect(formatScale(0)).toBe("0");
    expect(formatSignificant(1234.4, 4)).toBe("1,234");
    expect(formatSignificant(999.96, 4)).toBe("1,000.0");
    expect(formatSignificant(-12345, 3)).toBe("-12,345");
  });
});

describe("counts", () => {
  it.each([
    [950, "950"],
    [9999, "9,999"],
    [14500, "14.5k"],
    [20000, "20k"],
    [999_950, "1M"],
    [2.5e9, "2.5B"],
    [3e12, "3T"],
    [0.5, "0.5"],
  ])("%s is %s", (n, written) => {
    expect(formatShort(n)).toBe(written);
  });
});

describe("times", () => {
  it.each([
    [-3, "0 s"],
    [42, "42 s"],
    [59.9, "59 s"],
    [360, "6 min"],
    [3 * 3600, "3 h"],
    [100 * 3600, "4 d"],
  ])("an age of %s s is %s", (s, written) => {
    expect(formatAge(s)).toBe(written);
  });

  it.each([
    [5.25, "5.3 s"],
    [125, "2 min 05 s"],
    [7380, "2 h 03 min"],
  ])("a duration of %s s is %s", (s, written) => {
    expect(formatDuration(s)).toBe(written);
  });

  it("writes a position so that the point can be found again", () => {
    expect(formatPosition(11219, "step")).toBe("11,219");
    expect(formatPosition(2.25, "epoch")).toBe("2.25");
    expect(formatPosition(7380, "relative")).toBe("2 h 03 min");
    expect(formatPosition(7380, "active")).toBe("2 h 03 min");
    expect(formatPosition(7380, "from_start")).toBe("7,380");
  });
});
