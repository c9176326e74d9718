/** Scales: which one a role has, where positions lie on the x axis, what the user's own ranges do. */
import { describe, expect, it } from "vitest";
import { roleExtent, transformFor } from "../src/chart/extent";
import { stepFrom } from "../src/chart/nearest";
import { leftOfLog, type PlanInput, planChart, rangesOf, valueAt } from "../src/chart/plan";
import { xTicks } from "../src/chart/ticks";
import { wholeWindow, windowOf, xScale } from "../src/chart/xscale";
import { decodeSeries } from "../src/decode";
import { type ChartRole, OVERLAY_ROLES } from "../src/roles";
import { input } from "./plan-input";
import { encode, type TestSegment } from "./thb1";

const segments = (...list: TestSegment[]) => [...decodeSeries(encode(list)).segments];
const rate = (run: string, peak: number): TestSegment => ({
  run,
  role: "lr",
  x: [0, 10, 20, 30],
  last: [0, peak, peak / 2, peak / 500],
});
const plan = (s: ReturnType<typeof segments>, change: Partial<PlanInput> = {}) =>
  planChart(input({ segments: s, layout: "panel", height: 400, labelRoom: 0, ...change }));

describe("the y scale of a role", () => {
  it("is a logarithm for learning rates that are far apart, so that none lies on the floor", () => {
    expect(transformFor("lr", {}, segments(rate("a", 1e-3), rate("b", 3e-3)))).toBe("linear");
    const apart = segments(rate("a", 1e-3), rate("b", 3));
    expect(transformFor("lr", {}, apart)).toBe("log10");
    const { range, clipped, nonPositive } = roleExtent(apart, {
      role: "lr",
      transform: "log10",
      window: null,
      y: "auto",
    });
    // The lower one peaks well above the floor; what lies below it is counted, and so is what has no logarithm.
    const share = (Math.log10(1e-3) - range![0]) / (range![1] - range![0]);
    expect(share).toBeGreaterThan(0.3);
    expect(clipped).toMatchObject({ below: 1, above: 0 });
    expect(nonPositive).toBe(2);
  });

  it("is what the user chose", () => {
    expect(transformFor("loss", { loss: "log" }, [])).toBe("log10");
    expect(transformFor("grad_norm", { grad_norm: "linear" }, [])).toBe("linear");
    expect(transformFor("loss_scale", {}, [])).toBe("log2");
    expect(transformFor("loss_scale", { loss_scale: "log" }, [])).toBe("log2");
    expect(transformFor("lr", { lr: "linear" }, segments(rate("a", 1e-3), rate("b", 3)))).toBe("linear");
  });

  it.each(OVERLAY_ROLES)("has a default for %s", (role: ChartRole) => {
    expect(["linear", "log10", "log2"]).toContain(transformFor(role, {}, []));
  });
});

describe("a y range of the user's own", () => {
  const s = segments({ run: "a", role: "loss", x: [0, 1, 2], last: [1, 5, 100] });

  it("is exactly what is shown, and what it leaves out is counted", () => {
    const zone = plan(s, { ranges: { loss: [2, 10] } }).zones[0]!;
    expect(zone.shown).toEqual([2, 10]);
    expect(zone.clipped).toEqual({ exact: true, above: 1, below: 1, max: 100, min: 1 });
  });

  it("is ignored where a log axis has no place for it", () => {
    const zone = plan(s, { ranges: { loss: [-2, 10] }, scales: { loss: "log" } }).zones[0]!;
    expect(zone.shown).toEqual([0, 2]);
  });

  it("can be taken from what is shown, and back from a height", () => {
    for (const scales of [{}, { loss: "log" }] as const) {
      const shown = plan(s, { scales });
      const own = rangesOf(shown);
      expect(own.loss![0]).toBeCloseTo(1);
      expect(own.loss![1]).toBeCloseTo(100);
      const again = plan(s, { scales, ranges: own }).zones[0]!;
      expect(again.range[0]).toBeCloseTo(shown.zones[0]!.range[0]);
      const { band } = again;
      expect(valueAt(again, band.bottom, 400)).toBeLessThan(valueAt(again, band.top, 400));
    }
  });
});

describe("the x axis", () => {
  it("turns positions into fractions and back", () => {
    for (const log of [false, true]) {
      const x = xScale("step", log, { from: 1, to: 10_000 });
      expect(x.fraction(1)).toBe(0);
      expect(x.fraction(10_000)).toBe(1);
      for (const at of [0.1, 0.5, 0.77]) expect(x.fraction(x.at(at))).toBeCloseTo(at);
    }
    expect(xScale("step", true, { from: 1, to: 10_000 }).at(0.5)).toBeCloseTo(100);
    expect(Number.isFinite(xScale("step", true, { from: 1, to: 10 }).fraction(0))).toBe(false);
  });

  it("begins at the first positive point where it is logarithmic, and says what that leaves out", () => {
    const s = segments({ run: "a", role: "loss", x: [0, 3, 300], last: [1, 1, 1] });
    expect(plan(s, { logX: true }).window).toEqual({ from: 3, to: 300 });
    expect(leftOfLog(s, ["loss"])).toBe(1);
    expect(leftOfLog(s, ["lr"])).toBe(0);
    expect(plan(s, { logX: true, zoom: { from: -5, to: 100 } }).window).toEqual({ from: 3, to: 100 });
    expect(plan(s, { logX: true, zoom: { from: -5, to: 0 } }).window).toEqual({ from: 3, to: 300 });
    expect(plan([], { logX: true }).window).toEqual({ from: 1, to: 10 });
  });

  it("has ticks at powers of ten, or at the units of time", () => {
    const labels = (axis: "step" | "relative" | "epoch", from: number, to: number, most = 8) =>
      xTicks(xScale(axis, true, { from, to }), most).map((t) => t.label);
    expect(labels("step", 1, 100_000)).toEqual(["1", "10", "100", "1,000", "10k", "100k"]);
    expect(labels("step", 1, 100)).toEqual(["1", "2", "5", "10", "20", "50", "100"]);
    expect(labels("relative", 1, 100_000, 9)).toContain("1 h");
    expect(labels("epoch", 0.01, 1)).toContain("0.1");
    expect(labels("step", 100, 130).length).toBeGreaterThan(1);
    for (const most of [2, 5, 10]) expect(labels("step", 1, 1e12, most).length).toBeLessThanOrEqual(most);
  });

  it("keeps counts whole where a hand zoomed", () => {
    const x = xScale("step", false, { from: 0, to: 100 });
    expect(wholeWindow(windowOf(x, 0.101, 0.302), "step")).toEqual({ from: 10, to: 31 });
    expect(wholeWindow({ from: 5.2, to: 5.4 }, "step")).toEqual({ from: 5, to: 6 });
    expect(wholeWindow({ from: 5.2, to: 5.4 }, "epoch")).toEqual({ from: 5.2, to: 5.4 });
  });
});

describe("the arrow keys", () => {
  const s = segments(
    { run: "a", role: "loss", x: [10, 20, 30, 40], last: [1, 1, 1, 1] },
    { run: "a", role: "loss", x: [35, 50], last: [1, 1] },
  );
  const all = { from: 0, to: 100 };
  it("go from point to point, of all segments", () => {
    expect(stepFrom(s, all, null, 1)).toBe(10);
    expect(stepFrom(s, all, null, -1)).toBe(50);
    expect(stepFrom(s, all, 30, 1)).toBe(35);
    expect(stepFrom(s, all, 40, -2)).toBe(30);
    expect(stepFrom(s, all, 22, 1)).toBe(30); // the nearest point is where it is
  });
  it("stop at the ends of the window", () => {
    expect(stepFrom(s, all, 50, 1)).toBe(50);
    expect(stepFrom(s, { from: 15, to: 36 }, 20, -5)).toBe(20);
    expect(stepFrom(s, { from: 15, to: 36 }, 20, 10)).toBe(35);
    expect(stepFrom([], all, 3, 1)).toBeNull();
  });
});
