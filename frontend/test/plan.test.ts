import { describe, expect, it } from "vitest";
import type { Finding, HealthEvent } from "../src/api";
import { type Breaks, pixelColumns } from "../src/chart/columns";
import { roleExtent, transformFor } from "../src/chart/extent";
import { describeNonFinite, findMarks, windowAround } from "../src/chart/marks";
import { countRuns, readAt } from "../src/chart/nearest";
import { type Cover, coverOf, paintBandBehind } from "../src/chart/paint";
import { lonePeaks } from "../src/chart/peaks";
import { planChart } from "../src/chart/plan";
import { longestBridge, type Window } from "../src/chart/window";
import { decodeSeries, type Segment } from "../src/decode";
import type { ChartRole, XAxis } from "../src/roles";
import type { Scales, YRange } from "../src/state";
import { input } from "./plan-input";
import { SERIES } from "./run-info";
import { encode, type TestSegment } from "./thb1";

const segments = (...list: TestSegment[]) => [...decodeSeries(encode(list)).segments];
const range = (n: number, f: (i: number) => number) => Array.from({ length: n }, (_, i) => f(i));
const curve = (run: string, n = 100): TestSegment => ({
  run,
  role: "loss",
  x: range(n, (i) => i * 10),
  last: range(n, (i) => 2 + 1 / (i + 1)),
});

const extentOf = (
  s: readonly Segment[],
  role: ChartRole,
  window: Window | null,
  y: YRange,
  more: { scales?: Scales; range?: readonly [number, number] } = {},
) =>
  roleExtent(s, { role, window, y, transform: transformFor(role, more.scales ?? {}, s), range: more.range });

const marksIn = (
  s: readonly Segment[],
  x: XAxis,
  restarts: ReadonlyMap<string, readonly number[]>,
  loaded: Window | null = null,
) =>
  findMarks({
    segments: s,
    x,
    loaded,
    findings: new Map(),
    runs: [...new Set(s.map((one) => one.run))].map((run) => ({
      run,
      info: { restarts: restarts.get(run) ?? [], events: [], roles: {} },
    })),
  });

describe("the shown stretch of x", () => {
  it("leaves room for the labels at the ends", () => {
    const { window } = planChart(input({ segments: segments(curve("a")) }));
    expect(window.from).toBe(0);
    expect(1000 * ((990 - window.from) / (window.to - window.from))).toBeCloseTo(900);
  });

  it("shows what is still to come once that does not squeeze the data", () => {
    const s = segments(curve("a"));
    expect(planChart(input({ segments: s, totalSteps: 1500 })).window.to).toBe(1500);
    expect(planChart(input({ segments: s, totalSteps: 50_000 })).window.to).toBeLessThan(1200);
  });

  it("is exactly the zoom", () => {
    const zoom = { from: 100, to: 200 };
    expect(planChart(input({ segments: segments(curve("a")), zoom })).window).toEqual(zoom);
  });

  it("has a width even for a single point or none", () => {
    for (const s of [[], segments({ run: "a", role: "loss", x: [7], last: [1] })]) {
      const { window } = planChart(input({ segments: s }));
      expect(window.to).toBeGreaterThan(window.from);
    }
  });
});

describe("y ranges", () => {
  it("keep a spike in full range, and count what robust cuts off", () => {
    const s = segments({
      run: "a",
      role: "loss",
      x: range(100, (i) => i),
      last: range(100, (i) => (i === 50 ? 5000 : 2 + i / 100)),
    });
    const trimmed = s.map((one) => ({ ...one, p1: 2, p99: 3 }));
    expect(extentOf(trimmed, "loss", null, "full").range![1]).toBe(5000);
    const robust = extentOf(trimmed, "loss", null, "robust");
    expect(robust.range![1]).toBeLessThan(4);
    expect(robust.clipped).toEqual({ exact: true, above: 1, below: 0, max: 5000, min: 2 });
  });

  it("are full by themselves unless an outlier would flatten all others", () => {
    const spike = (height: number) => range(100, (i) => (i === 50 ? height : 2 + i / 100));
    const of = (height: number) => {
      const s = segments({ run: "a", role: "loss", x: range(100, (i) => i), last: spike(height) });
      return extentOf(
        s.map((one) => ({ ...one, p1: 2, p99: 3 })),
        "loss",
        null,
        "auto",
      );
    };
    expect(of(5).clipped).toBeNull();
    expect(of(5000).clipped).toMatchObject({ above: 1, max: 5000 });
  });

  it("show all of a short run, however steep its beginning", () => {
    const fall = range(41, (i) => 0.3 + 13.7 * Math.exp(-i / 2));
    const s = segments({ run: "a", role: "loss", x: range(41, (i) => i), last: fall });
    expect(extentOf(s, "loss", null, "auto")).toMatchObject({ range: [s[0]!.min[40], 14], clipped: null });
  });

  it("hold the smoothed line wherever it is drawn", () => {
    const n = 2000;
    const last = range(n, (i) => 0.3 + 13.7 * Math.exp(-i / 3) + (i % 2) / 50);
    let at = last[0]!;
    const smoothed = last.map((v) => {
      at = 0.9 * at + 0.1 * v;
      return at;
    });
    const s = segments({ run: "a", role: "loss", x: range(n, (i) => i), last, smoothed });
    const trimmed = s.map((one) => ({ ...one, p1: 0.3, p99: 0.32 }));
    expect(extentOf(trimmed, "loss", null, "auto").range![1]).toBeGreaterThanOrEqual(14);
    expect(extentOf(trimmed, "loss", null, "robust").range![1]).toBeLessThan(1);
    // It lags behind a fall, so in a window it may lie above every point.
    const window = { from: 10, to: n };
    expect(extentOf(trimmed, "loss", window, "full").range![1]).toBeCloseTo(smoothed[10]!, 4);
  });

  it("let a smoothed line go that is orders of magnitude away", () => {
    const n = 300;
    const last = range(n, (i) => (i > 280 ? 1e9 : 2 + i / n));
    const s = segments({ run: "a", role: "loss", x: range(n, (i) => i), last, smoothed: last });
    const trimmed = s.map((one) => ({ ...one, p1: 2, p99: 3 }));
    expect(extentOf(trimmed, "loss", null, "auto").range![1]).toBeLessThan(4);
  });

  it("follow the healthy runs where one of several has diverged", () => {
    const flat = (run: string, level: number): TestSegment => ({
      run,
      role: "loss",
      x: range(50, (i) => i),
      last: range(50, (i) => level + i / 50),
    });
    const s = segments(flat("a", 2), flat("b", 2.1), flat("c", 1e20));
    const extent = extentOf(s, "loss", null, "auto");
    expect(extent.range![1]).toBeLessThan(4);
    expect(extent.clipped).toMatchObject({ above: 50 });
  });

  it("count what a log axis cannot show", () => {
    const s = segments({ run: "a", role: "grad_norm", x: [1, 2, 3], last: [0, 1, 10] });
    const extent = extentOf(s, "grad_norm", null, "full");
    expect(extent.range).toEqual([0, 1]);
    expect(extent.nonPositive).toBe(1);
  });

  it("are of finite width for a constant", () => {
    for (const role of ["loss", "grad_norm", "lr", "loss_scale"] as const) {
      const s = segments({ run: "a", role, x: [1, 2], last: [4, 4] });
      const [lo, hi] = extentOf(s, role, null, "full").range!;
      expect(hi).toBeGreaterThan(lo);
    }
  });

  it("look only at the window", () => {
    const s = segments({ run: "a", role: "loss", x: [0, 10, 20], last: [100, 2, 3] });
    expect(extentOf(s, "loss", { from: 5, to: 25 }, "full").range).toEqual([2, 3]);
  });

  it("mark a zone without any finite value as empty", () => {
    const s = segments({
      run: "a",
      role: "loss",
      x: [1, 2],
      last: [Number.NaN, Number.NaN],
      nonfinite: { idx: [0, 1], nan: [1, 0], posinf: [0, 3], neginf: [0, 0] },
    });
    expect(planChart(input({ segments: s })).zones[0]!.empty).toBe(true);
    expect(describeNonFinite(s)).toBe("NaN at 1 logged point and +Inf at 3 logged points");
  });

  it("keep ticks inside the zone", () => {
    const roles = ["loss", "lr"] as const;
    const s = segments(curve("a"), { run: "a", role: "lr", x: [0, 990], last: [0, 1e-3] });
    const { zones } = planChart(input({ segments: s, roles }));
    for (const zone of zones) {
      const [min, max] = zone.range;
      for (const tick of zone.ticks) {
        const y = 600 * (1 - (tick.at - min) / (max - min));
        expect(y).toBeGreaterThanOrEqual(zone.band.top - 1);
        expect(y).toBeLessThanOrEqual(zone.band.bottom + 1);
      }
    }
  });
});

describe("pixel columns", () => {
  it("lose no extreme, and skip gaps only where nothing else is", () => {
    const [s] = segments({
      run: "a",
      role: "loss",
      x: range(1000, (i) => i),
      last: range(1000, (i) => (i === 501 ? 99 : i % 2 ? Number.NaN : 1)),
    });
    const c = pixelColumns(s!, 0, 999, { scale: 0.1, offset: 0 });
    expect(c.n).toBe(100);
    expect(Math.max(...c.hi.slice(0, c.n))).toBe(99);
    expect([...c.lo.slice(0, c.n)].every((v) => v === v)).toBe(true);
  });

  it("take one point more on either side of the window", () => {
    const [s] = segments(curve("a"));
    const c = pixelColumns(s!, 105, 205, { scale: 1, offset: 0 });
    expect([...c.x.slice(0, c.n)]).toEqual([100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 200, 210]);
  });
});

describe("breaks in time", () => {
  const brokenOf = (s: TestSegment, breaks: Breaks) => {
    const c = pixelColumns(segments(s)[0]!, 0, 1e5, { scale: 1, offset: 0, breaks });
    return [...c.x.slice(0, c.n)].filter((_, i) => c.broken[i]);
  };
  const run = (x: number[]): TestSegment => ({ run: "a", role: "loss", x, last: x.map(() => 1) });

  it("are where nothing was logged for much longer than usual, and for a minute", () => {
    const often = run([0, 1, 2, 3, 40, 41, 42, 200, 201]);
    expect(longestBridge(segments(often)[0]!)).toBe(60);
    expect(brokenOf(often, { gap: 60, at: [] })).toEqual([200]);
    expect(longestBridge(segments(run([0, 100, 200, 300]))[0]!)).toBe(2000);
    for (const few of [[], [7], [7, 9000]]) expect(longestBridge(segments(run(few))[0]!)).toBeGreaterThan(0);
  });

  it("are where a superseded branch ended", () => {
    expect(brokenOf(run([0, 10, 20, 50, 60]), { gap: 1e9, at: [45] })).toEqual([50]);
  });
});

describe("a superseded band", () => {
  const up = { transform: (v: number) => v, a: -1, b: 0 };
  const band = (lo: number, hi: number): TestSegment => ({
    run: "a",
    role: "loss",
    x: [0],
    last: [hi],
    min: [lo],
    max: [hi],
  });
  const drawn = (old: TestSegment, front: TestSegment) => {
    const cover: Cover = new Map();
    coverOf(pixelColumns(segments(front)[0]!, 0, 1, { scale: 1, offset: 0 }), up, 0, cover);
    const strokes: [number, number][] = [];
    let from = 0;
    const ctx = {
      beginPath() {},
      setLineDash() {},
      stroke() {},
      moveTo: (_x: number, at: number) => {
        from = at;
      },
      lineTo: (_x: number, at: number) => strokes.push([from, at]),
    } as unknown as CanvasRenderingContext2D;
    const style = { colour: "#000000", alpha: 1 };
    paintBandBehind(ctx, pixelColumns(segments(old)[0]!, 0, 1, { scale: 1, offset: 0 }), up, 0, style, cover);
    return strokes;
  };

  it("shows only where the band in front of it leaves room", () => {
    expect(drawn(band(10, 50), band(20, 40))).toEqual([
      [-50, -40],
      [-20, -10],
    ]);
    expect(drawn(band(10, 50), band(10, 50))).toEqual([]);
  });
});

describe("lone peaks", () => {
  const flat = (i: number) => Math.sin(i * 12.9898) * 3;
  it("are found in a quiet curve", () => {
    const peaks = lonePeaks(
      300,
      (i) => (i === 150 ? 200 : flat(i)),
      () => 5,
      8,
    );
    expect(peaks.map((p) => p.i)).toEqual([150]);
  });
  it("are not found in noise, a decay or a step", () => {
    expect(
      lonePeaks(
        300,
        (i) => flat(i) * 30,
        () => 1,
        8,
      ),
    ).toEqual([]);
    expect(
      lonePeaks(
        300,
        (i) => 1000 * Math.exp(-i / 10),
        () => 2,
        8,
      ),
    ).toEqual([]);
    expect(
      lonePeaks(
        300,
        (i) => (i > 150 ? 200 : 0) + flat(i),
        () => 5,
        8,
      ),
    ).toEqual([]);
  });
});

describe("marks", () => {
  const old: TestSegment = { run: "a", role: "loss", x: [500, 600], last: [1, 1], current: false };

  it("show a restart once, though every role has its branch", () => {
    const s = segments(curve("a"), old, { ...old, role: "lr", x: [505, 600] });
    const marks = marksIn(s, "step", new Map([["a", [500]]]));
    expect(marks).toHaveLength(1);
    expect(marks[0]).toMatchObject({ kind: "restart", x: 500, span: { from: 500, to: 600 } });
  });

  it("show a restart that superseded nothing", () => {
    const marks = marksIn(segments(curve("a")), "step", new Map([["a", [300]]]));
    expect(marks).toMatchObject([{ kind: "restart", x: 300 }]);
  });

  it("put it in time where the curve goes on", () => {
    const s = segments({ ...curve("a", 3), x: [0, 100, 900] }, { ...old, x: [110, 300] });
    expect(marksIn(s, "relative", new Map())[0]!.x).toBe(900);
  });

  it("say what was not finite, and where", () => {
    const s = segments({
      run: "a",
      role: "loss",
      x: [1, 2, 3],
      last: [1, Number.NaN, Number.NaN],
      nonfinite: { idx: [1, 2], nan: [1, 1], posinf: [0, 0], neginf: [0, 0] },
    });
    expect(marksIn(s, "step", new Map())).toMatchObject([
      { kind: "nonfinite", x: 2, title: "a: loss was NaN at 2 logged points between step 2 and step 3." },
    ]);
  });
});

describe("marks of findings", () => {
  const finding = (rule: string, more: Partial<Finding> = {}): Finding => ({
    rule,
    severity: "warning",
    run: "a",
    role: "loss",
    tag: "train/loss",
    first_step: 100,
    last_step: 300,
    peak_step: 200,
    message: `${rule}.`,
    advice: "",
    evidence: {},
    ...more,
  });
  const scene = (
    findings: readonly Finding[],
    x: XAxis = "step",
    events: readonly HealthEvent[] = [],
    restarts: readonly number[] = [],
  ) => ({
    segments: segments(curve("a")),
    x,
    loaded: null,
    findings: new Map([["a", findings]]),
    runs: [{ run: "a", info: { restarts, events, roles: { loss: { ...SERIES, first_step: 30 } } } }],
  });

  it("have the shape of what was found, where it began or was worst", () => {
    const rules = ["loss_divergence", "loss_spike", "grad_explosion", "non_finite", "throughput_drop"];
    const marks = findMarks(scene(rules.map((rule) => finding(rule))));
    expect(Object.fromEntries(marks.map((m) => [m.finding!.rule, [m.kind, m.x]]))).toEqual({
      loss_divergence: ["diverged", 100],
      loss_spike: ["spike", 200],
      grad_explosion: ["spike", 200],
      non_finite: ["nonfinite", 100],
      throughput_drop: ["alert", 100],
    });
    expect(marks.every((m) => m.severity === "warning")).toBe(true);
  });

  it("of restarts and events lie where the run's steps lie, also counted from its first one", () => {
    const events = [{ kind: "alert", step: 70, severity: "warning", message: "!" }] as const;
    const places = (x: XAxis) => findMarks(scene([], x, events, [40])).map((m) => [m.kind, m.x]);
    const two = (a: number, b: number) => [
      ["restart", a],
      ["alert", b],
    ];
    expect(places("step")).toEqual(two(40, 70));
    expect(places("from_start")).toEqual(two(10, 40));
    expect(places("active")).toEqual([]);
  });

  it("lie on another axis where the server says", () => {
    const known = finding("loss_spike", { at: { wall: [1000, 1020, 1010] } });
    expect(findMarks(scene([known], "wall"))).toMatchObject([{ x: 1010, span: { from: 1000, to: 1020 } }]);
    expect(findMarks(scene([known], "epoch"))).toEqual([]);
  });

  it("stand for what the curve itself tells of the same", () => {
    const broken: TestSegment = {
      run: "a",
      role: "loss",
      x: [1, 2],
      last: [1, Number.POSITIVE_INFINITY],
      nonfinite: { idx: [1], nan: [0], posinf: [1], neginf: [0] },
    };
    const both = { ...scene([finding("non_finite", { severity: "critical" })]), segments: segments(broken) };
    expect(findMarks(both)).toMatchObject([
      { kind: "nonfinite", label: "Inf", finding: { rule: "non_finite" } },
    ]);
  });

  it("stand beside what the run's own callback found and did", () => {
    const events: HealthEvent[] = [
      { kind: "alert", step: 120, severity: "critical", message: "It jumped." },
      { kind: "action", step: 121, severity: "warning", message: "Learning rate reduced." },
    ];
    expect(findMarks(scene([], "step", events))).toMatchObject([
      {
        kind: "alert",
        severity: "critical",
        x: 120,
        title: "a, found at step 120 while it trained: It jumped.",
      },
      { kind: "alert", severity: "warning", x: 121, title: "a, done at step 121: Learning rate reduced." },
    ]);
  });
});

describe("marks in a zoomed window", () => {
  const old: TestSegment = { run: "a", role: "loss", x: [500, 510], last: [1, 1], current: false };
  const loaded = { from: 400, to: 510 };
  const known = new Map([["a", [500]]]);

  it("do not state the window's ends as the branch's", () => {
    const marks = marksIn(
      segments({ ...curve("a"), x: range(100, (i) => 400 + i) }, old),
      "step",
      known,
      loaded,
    );
    expect(marks.map((m) => m.title)).toEqual(["a restarted at step 500."]);
  });

  it("show no restart where only the window begins, amid a branch", () => {
    const current = { ...curve("a", 50), x: range(50, (i) => 501 + i) };
    expect(marksIn(segments(current, old), "step", known, { from: 500.5, to: 600 })).toEqual([]);
  });
});

describe("pills of what is not finite", () => {
  const broken = (role: TestSegment["role"], at: readonly number[], n = 1000): TestSegment => ({
    run: "a",
    role,
    x: range(n, (i) => i),
    last: range(n, (i) => (at.includes(i) ? Number.NaN : 2)),
    nonfinite: { idx: [...at], nan: at.map(() => 1), posinf: at.map(() => 0), neginf: at.map(() => 0) },
  });
  const marksOf = (s: TestSegment) => marksIn(segments(s), "step", new Map());

  it("are about the loss, not about a grad norm whose updates were skipped", () => {
    expect(marksOf(broken("grad_norm", [1, 2]))).toEqual([]);
    expect(marksOf(broken("loss", [1, 2]))).toHaveLength(1);
  });

  it("tell events that are far apart from each other", () => {
    const marks = marksOf(broken("loss", [150, 151, 160, 950]));
    expect(marks.map((m) => m.span)).toEqual([
      { from: 150, to: 160 },
      { from: 950, to: 950 },
    ]);
  });

  it("lead to a stretch with context that is never nearly the whole run", () => {
    const few = segments(broken("loss", [150, 151, 160]));
    expect(windowAround(marksIn(few, "step", new Map()), few, "step")).toEqual({ from: 130, to: 180 });
    const most = segments(
      broken(
        "loss",
        range(600, (i) => 400 + i),
      ),
    );
    const { from, to } = windowAround(marksIn(most, "step", new Map()), most, "step");
    expect(to - from).toBeLessThan(510);
    expect(from).toBeLessThan(400);
    expect(to).toBeGreaterThan(400);
  });
});

describe("the reading at the cursor", () => {
  it("is a logged point of each role, held values from before", () => {
    const s = segments(curve("a"), { run: "a", role: "lr", x: [0, 90, 200], last: [1, 2, 3] });
    const { rows } = readAt(s, ["a"], 104, 10);
    expect(rows[0]).toMatchObject({ run: "a", superseded: false, x: 100 });
    expect(rows[0]!.cells.lr).toEqual({ x: 90, value: 2 });
  });

  it("counts runs that ended before, and lists superseded branches", () => {
    const s = segments(curve("a", 200), curve("b", 10), {
      run: "a",
      role: "loss",
      x: [500, 600],
      last: [7, 8],
      current: false,
    });
    const { rows, ended } = readAt(s, ["a", "b"], 510, 5);
    expect(ended).toBe(1);
    expect(countRuns(rows)).toBe(1);
    expect(rows.map((r) => [r.run, r.superseded])).toEqual([
      ["a", false],
      ["a", true],
    ]);
  });

  it("tells NaN from infinities", () => {
    const s = segments({
      run: "a",
      role: "loss",
      x: [1, 2],
      last: [Number.NaN, Number.NaN],
      nonfinite: { idx: [0, 1], nan: [0, 1], posinf: [1, 0], neginf: [0, 0] },
    });
    expect(readAt(s, ["a"], 1, 1).rows[0]!.cells.loss!.value).toBe(Number.POSITIVE_INFINITY);
    expect(readAt(s, ["a"], 2, 1).rows[0]!.cells.loss!.value).toBeNaN();
  });
});
