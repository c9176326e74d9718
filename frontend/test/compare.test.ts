import { beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError, type CompareQuery, type Comparison } from "../src/api";
import {
  type Comparing,
  derivedSegments,
  errorFloor,
  limitAt,
  partedMarks,
  percentText,
  relabelled,
  toleranceText,
  usualLimit,
} from "../src/chart/compare";
import { findMarks } from "../src/chart/marks";
import { type PlanInput, planChart, zoneScale } from "../src/chart/plan";
import {
  againstBaseline,
  type Compared,
  Comparisons,
  comparableRoles,
  comparedRole,
  isAbout,
  keyOf,
  settingRows,
  type Wanted,
} from "../src/compare";
import type { Segment } from "../src/decode";
import { decodeSeries } from "../src/decode";
import { formatShare, formatValue } from "../src/format";
import { runInfo, SERIES } from "./run-info";
import { encode } from "./thb1";

const N = 100;
const range = (f: (i: number) => number) => Array.from({ length: N }, (_, i) => f(i));
const curve = (values: readonly (number | null)[]) => ({
  raw: true,
  x: range((i) => i * 10),
  min: values,
  max: values,
  last: values,
  smoothed: null,
});

const comparison = (more: Partial<Comparison> = {}): Comparison => ({
  verdict: "differs",
  title: "Differs from step 500",
  message: "",
  notes: [],
  errors: { points: N, parted_step: 500 },
  at: { parted: 500 },
  lr: null,
  seconds_per_step: null,
  settings: [],
  difference: curve(range((i) => (i < 50 ? 0 : 0.2))),
  relative_error: curve(range((i) => (i < 50 ? 0 : 0.1))),
  ...more,
});

const loss = (): Segment[] => [
  ...decodeSeries(encode([{ run: "a", role: "loss", x: range((i) => i * 10), last: range(() => 2) }]))
    .segments,
];

const comparing = (more: Partial<Comparing> = {}): Comparing => ({
  baseline: "base",
  role: "loss",
  axis: "step",
  tolerance: 0.01,
  absolute: 0,
  limit: 0.01,
  parted: [{ run: "a", x: 500 }],
  ...more,
});

const input = (answer: Comparison, more: Partial<PlanInput> = {}): PlanInput => ({
  segments: [...loss(), ...derivedSegments("a", answer)],
  roles: ["loss", "difference", "relative_error"],
  layout: "lanes",
  x: "step",
  logX: false,
  zoom: null,
  loaded: null,
  y: "auto",
  scales: {},
  ranges: {},
  totalSteps: null,
  width: 1000,
  height: 560,
  labelRoom: 0,
  comparing: comparing(),
  ...more,
});

const zonesOf = (of: PlanInput) => {
  const [compared, difference, error] = planChart(of).zones;
  return { compared: compared!, difference: difference!, error: error! };
};

describe("the zones of a comparison", () => {
  it("share the height 42 : 29 : 29, whatever is compared", () => {
    for (const role of ["loss", "lr"] as const) {
      const plan = planChart(input(comparison(), { roles: [role, "difference", "relative_error"] }));
      const heights = plan.zones.map((z) => z.band.bottom - z.band.top);
      const all = heights.reduce((a, b) => a + b, 0);
      expect(heights.map((h) => Math.round((100 * h) / all))).toEqual([42, 29, 29]);
    }
  });

  it("show zero in the difference, with signs", () => {
    const { difference } = zonesOf(input(comparison({ difference: curve(range(() => 0.2)) })));
    expect(difference.shown[0]).toBeLessThan(0);
    expect(difference.ticks.map((t) => t.label)).toContain("0");
    expect(difference.ticks.some((t) => t.label.startsWith("+0."))).toBe(true);
  });

  it("show the relative error from a tenth of the tolerance on, and the tolerance", () => {
    const { error } = zonesOf(input(comparison()));
    expect(10 ** error.shown[0]).toBeCloseTo(0.001, 9);
    expect(error.ticks.map((t) => t.label)).toEqual(["0.1 %", "1 %", "10 %"]);
    const small = zonesOf(input(comparison({ relative_error: curve(range(() => 0.002)) }))).error;
    expect(10 ** small.shown[1]).toBeGreaterThan(0.01);
  });

  it("draw smaller errors on the floor, and nothing where there is none", () => {
    const { error } = zonesOf(input(comparison()));
    const y = zoneScale(error, 0, 560);
    const at = (v: number) => y.a * y.transform(v) + y.b;
    expect(at(0)).toBe(at(0.001));
    expect(at(0.0005)).toBe(at(0.001));
    expect(at(0.01)).toBeLessThan(at(0.001));
    expect(at(Number.NaN)).toBeNaN();
  });

  it("have a place for two runs that are the same", () => {
    const same = curve(range(() => 0));
    const { error, difference } = zonesOf(input(comparison({ difference: same, relative_error: same })));
    expect(error.empty).toBe(false);
    expect(difference.empty).toBe(false);
    expect(difference.shown[0]).toBeLessThan(0);
    expect(difference.shown[1]).toBeGreaterThan(0);
  });

  it("are empty where nothing is compared", () => {
    const nothing = curve(range(() => null as never));
    const { error } = zonesOf(input(comparison({ difference: nothing, relative_error: nothing })));
    expect(error.empty).toBe(true);
  });

  it("keep a range that the user set", () => {
    const { error, difference } = zonesOf(
      input(comparison(), { ranges: { difference: [0.1, 0.3], relative_error: [0.05, 0.2] } }),
    );
    expect(difference.shown).toEqual([0.1, 0.3]);
    expect(10 ** error.shown[0]).toBeCloseTo(0.05, 9);
  });

  it("take a tolerance of nothing", () => {
    expect(errorFloor(0)).toBeGreaterThan(0);
    const { error } = zonesOf(input(comparison(), { comparing: comparing({ tolerance: 0, limit: 0 }) }));
    expect(error.shown.every(Number.isFinite)).toBe(true);
  });

  it("take an absolute tolerance as what it is at the baseline's usual value", () => {
    const allowed = { tolerance: 0.01, absolute: 0.2 };
    expect(limitAt(allowed, -4)).toBeCloseTo(0.06);
    expect(limitAt(allowed, 0)).toBe(Number.POSITIVE_INFINITY);
    expect(limitAt({ tolerance: 0.01, absolute: 0 }, 0)).toBe(0.01);
    // The baseline is 2 throughout.
    expect(usualLimit(allowed, loss(), "a", "loss")).toBeCloseTo(0.11);
    expect(usualLimit(allowed, [], "a", "loss")).toBe(0.01);
    const limit = usualLimit({ tolerance: 0, absolute: 0.2 }, loss(), "a", "loss");
    const { error } = zonesOf(input(comparison(), { comparing: comparing({ tolerance: 0, limit }) }));
    expect(10 ** error.shown[0]).toBeCloseTo(0.01, 9);
  });

  it("say the tolerance as it is", () => {
    const said = (tolerance: number, absolute: number) => toleranceText({ tolerance, absolute });
    expect([said(0.01, 0), said(0, 0.002), said(0.01, 0.002)]).toEqual(["1 %", "0.002", "(1 % + 0.002)"]);
  });
});

describe("a comparison's marks", () => {
  it("stand where runs leave the baseline, and nothing else does", () => {
    const parted = [
      { run: "b", x: 700 },
      { run: "a", x: 500 },
    ];
    const marks = partedMarks(comparing({ parted }));
    expect(marks.map((m) => [m.kind, m.run, m.x])).toEqual([
      ["parted", "a", 500],
      ["parted", "b", 700],
    ]);
    expect(marks[0]!.title).toBe("a leaves the baseline at 500");
    const scene = { segments: loss(), x: "step" as const, loaded: null, findings: new Map(), runs: [] };
    expect(findMarks({ ...scene, comparing: comparing({ parted }) })).toHaveLength(2);
  });
});

describe("its numbers", () => {
  it("have signs and per cent", () => {
    expect(formatValue(0.1234, "difference")).toBe("+0.123");
    expect(formatValue(-2, "difference")).toBe("−2.00");
    expect(formatValue(0, "difference")).toBe("0");
    expect([0, 0.000129, 0.0123, 0.5, 7, 1e7].map(formatShare)).toEqual([
      "0 %",
      "0.0129 %",
      "1.23 %",
      "50 %",
      "700 %",
      "1e9 %",
    ]);
    expect([0.01, 0.07, 0.0005, 0].map(percentText)).toEqual(["1", "7", "0.05", "0"]);
    const ticks = [-0.5, 0, 0.5].map((at) => ({ at, label: String(at) }));
    expect(relabelled("difference", ticks).map((t) => t.label)).toEqual(["−0.5", "0", "+0.5"]);
    expect(relabelled("loss", ticks)).toBe(ticks);
  });

  it("become columns in which what is not finite is a gap", () => {
    const [difference, error] = derivedSegments(
      "a",
      comparison({ difference: curve([1, null, 3] as never) }),
    );
    expect(difference!.role).toBe("difference");
    expect([...difference!.last]).toEqual([1, Number.NaN, 3]);
    expect(error!.n).toBe(N);
  });
});

describe("what can be compared", () => {
  const base = runInfo("base", { roles: { loss: SERIES, lr: SERIES, eval_loss: SERIES } });
  const run = runInfo("run", { roles: { loss: SERIES, eval_loss: SERIES, kl: SERIES } });

  it("is what the baseline and some run log", () => {
    expect(comparableRoles(base, [run])).toEqual(["loss", "eval_loss"]);
    expect(comparableRoles(base, [])).toEqual(["loss", "eval_loss", "lr"]);
    expect(comparedRole("lr", base)).toBe("lr");
    expect(comparedRole("kl", base)).toBe("loss");
  });

  it("is never the baseline itself", () => {
    expect(againstBaseline(["a", "base", "b"], "base")).toEqual(["base", "a", "b"]);
    expect(againstBaseline(["a"], "base")).toEqual(["base", "a"]);
    expect(againstBaseline(["a"], null)).toEqual(["a"]);
  });

  it("lists settings that differ in any run, with the baseline's value", () => {
    const a = comparison({ settings: [{ name: "seed", value: 2, baseline: 1 }] });
    const b = comparison({ settings: [{ name: "lr", value: null, baseline: 3e-4 }] });
    expect(settingRows([a, null, b])).toEqual([
      { name: "lr", baseline: 3e-4, values: [undefined, undefined, null] },
      { name: "seed", baseline: 1, values: [2, undefined, undefined] },
    ]);
  });
});

describe("comparisons are fetched", () => {
  const wanted = (run: string, more: Partial<CompareQuery> = {}, version = "1"): Wanted => ({
    version,
    query: {
      ...{
        baseline: "base",
        run,
        role: "loss",
        x: "step",
        tolerance: 0.01,
        absolute: 0,
        from: null,
        to: null,
      },
      ...{ buckets: 1000, smoothing: 0, lang: "en" },
      ...more,
    },
  });
  let asked: {
    query: CompareQuery;
    signal: AbortSignal;
    answer: (c: Comparison) => void;
    fail: (e: Error) => void;
  }[];
  let shown: ReadonlyMap<string, Compared>;
  let feed: Comparisons;

  beforeEach(() => {
    asked = [];
    feed = new Comparisons(
      {
        compare: (query, signal) =>
          new Promise((answer, fail) => {
            signal.addEventListener("abort", () => fail(new DOMException("", "AbortError")));
            asked.push({ query, signal, answer, fail });
          }),
      },
      (now) => {
        shown = now;
      },
    );
  });
  const settled = () => new Promise((done) => setTimeout(done));

  it("two at a time, each once", async () => {
    feed.want([wanted("a"), wanted("b"), wanted("c")]);
    expect(asked.map((a) => a.query.run)).toEqual(["a", "b"]);
    asked[0]!.answer(comparison());
    await settled();
    expect(asked.map((a) => a.query.run)).toEqual(["a", "b", "c"]);
    expect([...shown.keys()]).toEqual(["a"]);
    feed.want([wanted("a"), wanted("b"), wanted("c")]);
    expect(asked).toHaveLength(3);
  });

  it("what is overtaken is given up, and the last answer stays until the next one", async () => {
    feed.want([wanted("a")]);
    asked[0]!.answer(comparison());
    await settled();
    feed.want([wanted("a", { from: 10, to: 20 })]);
    feed.want([wanted("a", { from: 10, to: 30 })]);
    expect(asked[1]!.signal.aborted).toBe(true);
    expect(shown.get("a")!.key).toBe(keyOf(wanted("a")));
    expect(isAbout(shown.get("a")!, wanted("a", { from: 10, to: 30 }).query)).toBe(true);
    expect(isAbout(shown.get("a")!, wanted("a", { role: "lr" }).query)).toBe(false);
    asked[2]!.answer(comparison({ title: "narrow" }));
    await settled();
    expect(shown.get("a")!.answer!.title).toBe("narrow");
    // On the way back nothing is asked.
    feed.want([wanted("a")]);
    expect(asked).toHaveLength(3);
    expect(shown.get("a")!.key).toBe(keyOf(wanted("a")));
  });

  it("again where a run has grown, and what failed in passing", async () => {
    feed.want([wanted("a"), wanted("b")]);
    asked[0]!.fail(new ApiError("no common step", "log both", false));
    asked[1]!.fail(new ApiError("gone", "", true));
    await settled();
    expect(shown.get("a")!.problem).toEqual({ message: "no common step", hint: "log both", passing: false });
    feed.want([wanted("a"), wanted("b")]);
    expect(asked.slice(2).map((a) => a.query.run)).toEqual(["b"]);
    feed.want([wanted("a", {}, "2")]);
    expect(asked.slice(3).map((a) => a.query.run)).toEqual(["a"]);
    expect(shown.has("b")).toBe(false);
  });

  it("keeping the last answer while the server is gone", async () => {
    feed.want([wanted("a")]);
    asked[0]!.answer(comparison({ title: "before" }));
    await settled();
    const next = wanted("a", { from: 10, to: 20 });
    feed.want([next]);
    asked[1]!.fail(new ApiError("gone", "", true));
    await settled();
    expect(shown.get("a")!.answer!.title).toBe("before");
    expect(shown.get("a")!.key).toBe(keyOf(next));
    // And asks again at the next look.
    feed.want([next]);
    asked[2]!.answer(comparison({ title: "after" }));
    await settled();
    expect(shown.get("a")!.answer!.title).toBe("after");
    // Of another metric it would be wrong.
    feed.want([wanted("a", { role: "lr" })]);
    asked[3]!.fail(new ApiError("gone", "", true));
    await settled();
    expect(shown.get("a")!.problem!.message).toBe("gone");
  });

  it("and nothing once nobody looks", async () => {
    feed.want([wanted("a"), wanted("b"), wanted("c")]);
    feed.stop();
    expect(asked.every((a) => a.signal.aborted)).toBe(true);
    await settled();
    expect(asked).toHaveLength(2);
  });

  it("a fault of the code is said, not shown as a comparison", async () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    feed.want([wanted("a")]);
    asked[0]!.fail(new TypeError("oops"));
    await settled();
    expect(shown.get("a")!.problem!.message).not.toBe("");
    expect(error).toHaveBeenCalled();
    error.mockRestore();
  });
});
