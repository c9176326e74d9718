import { describe, expect, it } from "vitest";
import { learningRateTicks, linearTicks, log2Ticks, log10Ticks, niceStep, xTicks } from "../src/chart/ticks";
import { xScale } from "../src/chart/xscale";
import type { XAxis } from "../src/roles";

const labels = (ticks: readonly { label: string }[]) => ticks.map((t) => t.label);
const steps = (lo: number, hi: number, most = 8, axis: XAxis = "step") =>
  labels(xTicks(xScale(axis, false, { from: lo, to: hi }), most));

describe("x ticks", () => {
  it("are in k from 10,000 up, and never mixed", () => {
    expect(steps(0, 20000, 10)).toEqual([
      "0",
      "2k",
      "4k",
      "6k",
      "8k",
      "10k",
      "12k",
      "14k",
      "16k",
      "18k",
      "20k",
    ]);
    expect(steps(0, 20000)).toEqual(["0", "2.5k", "5k", "7.5k", "10k", "12.5k", "15k", "17.5k", "20k"]);
    expect(steps(0, 9999, 5)).toEqual(["0", "2,000", "4,000", "6,000", "8,000"]);
  });

  it("keep neighbouring labels apart in a narrow window far out", () => {
    expect(steps(1_000_000, 1_000_010, 5)).toEqual([
      "1,000,000",
      "1,000,002",
      "1,000,004",
      "1,000,006",
      "1,000,008",
      "1,000,010",
    ]);
    expect(steps(0, 0.004, 4, "epoch")).toEqual(["0", "0.001", "0.002", "0.003", "0.004"]);
  });

  it("are whole steps, however narrow the window", () => {
    expect(steps(3.2, 5.1)).toEqual(["4", "5"]);
  });

  it("use B for tokens", () => {
    expect(steps(0, 3e10, 4, "tokens")).toEqual(["0", "10B", "20B", "30B"]);
  });

  it("write durations in one unit", () => {
    expect(steps(0, 5400, 4, "relative")).toEqual(["0", "25 min", "50 min", "75 min"]);
    expect(steps(0, 5400, 4, "active")).toEqual(steps(0, 5400, 4, "relative"));
    expect(steps(0, 100, 5, "relative")).toEqual(["0", "20 s", "40 s", "60 s", "80 s", "100 s"]);
  });

  it("stand on round clock times", () => {
    const at = new Date(2024, 4, 12, 13, 40).getTime() / 1000;
    expect(steps(at, at + 3600, 5, "wall")).toEqual(["13:45", "14:00", "14:15", "14:30"]);
    expect(steps(at, at + 3 * 86400, 4, "wall")).toEqual(["13 May", "14 May", "15 May"]);
  });

  it("are none for an empty or broken range", () => {
    expect(steps(5, 5)).toEqual([]);
    expect(steps(Number.NaN, 1)).toEqual([]);
  });
});

describe("y ticks", () => {
  it("write grad norms as 0.1 1 10 100, then powers", () => {
    expect(labels(log10Ticks(-2, 4, 10))).toEqual(["10⁻²", "0.1", "1", "10", "100", "10³", "10⁴"]);
  });

  it("subdivide less than a decade", () => {
    expect(labels(log10Ticks(-0.8, 0.4, 6))).toEqual(["0.2", "0.5", "1", "2"]);
    expect(labels(log10Ticks(Math.log10(0.31), Math.log10(0.39), 4)).length).toBeGreaterThan(0);
  });

  it("thin out powers of two by doubling", () => {
    expect(labels(log2Ticks(14, 17, 4))).toEqual(["2¹⁴", "2¹⁵", "2¹⁶", "2¹⁷"]);
    expect(labels(log2Ticks(0, 18, 3))).toEqual(["2⁰", "2⁸", "2¹⁶"]);
  });

  it("write learning rates with an exponent", () => {
    expect(labels(learningRateTicks(0, 1e-3, 4))).toEqual(["0", "2.5e-4", "5e-4", "7.5e-4", "1e-3"]);
  });

  it("use as many decimals as the step needs", () => {
    expect(labels(linearTicks(1.9, 2.1, 4))).toEqual(["1.90", "1.95", "2.00", "2.05", "2.10"]);
    expect(labels(linearTicks(0, 2e23, 5))).toEqual(["0", "5e22", "1e23", "1.5e23", "2e23"]);
    expect(labels(learningRateTicks(0, 2, 4))).toEqual(["0", "0.5", "1.0", "1.5", "2.0"]);
  });
});

it("niceStep never gives more steps than asked for", () => {
  for (const span of [1, 7, 0.03, 12345]) expect(span / niceStep(span, 6)).toBeLessThanOrEqual(6.000001);
});
