/** uPlot asks its options later than it was told to draw; the stand-in here does so on purpose. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunInfo } from "../src/api";
import type { Scene } from "../src/chart/scene";
import { decodeSeries } from "../src/decode";
import type { OverlayRole } from "../src/roles";
import { encode } from "./thb1";

interface Made {
  readonly asks: () => unknown[];
  destroyed: boolean;
  drawn: number;
}
const { made } = vi.hoisted(() => ({ made: [] as Made[] }));

vi.mock("uplot", () => ({
  default: class {
    static pxRatio = 1;
    width = 0;
    height = 0;
    private readonly own: Made;
    constructor(options: {
      width: number;
      height: number;
      scales: Record<string, { range: () => unknown }>;
      axes: { splits: () => unknown; values: () => unknown }[];
    }) {
      this.width = options.width;
      this.height = options.height;
      this.own = {
        destroyed: false,
        drawn: 0,
        asks: () => [
          ...Object.values(options.scales).map((s) => s.range()),
          ...options.axes.flatMap((a) => [a.splits(), a.values()]),
        ],
      };
      made.push(this.own);
    }
    setData() {
      this.own.drawn++;
    }
    setSize() {}
    destroy() {
      this.own.destroyed = true;
    }
  },
}));

const { Chart } = await import("../src/chart/chart");

beforeEach(() => {
  made.length = 0;
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("document", { createElement: () => ({ remove() {} }) });
});
afterEach(() => vi.unstubAllGlobals());

function scene(run: string, roles: readonly OverlayRole[]): Scene {
  const x = [1, 2, 3];
  const info = { run, restarts: [], roles: {}, verdict: "ok" } as unknown as RunInfo;
  return {
    segments: decodeSeries(encode(roles.map((role) => ({ run, role, x, last: [1, 2, 3] })))).segments,
    runs: [{ info, run, label: run, colour: "#000000" }],
    roles,
    layout: "merged",
    x: "step",
    logX: false,
    zoom: null,
    loaded: null,
    y: "auto",
    scales: {},
    ranges: {},
    smoothing: 0,
    totalSteps: null,
    pending: false,
    findings: new Map(),
    selected: null,
    theme: "light",
  };
}

function chart() {
  const nothing = () => {};
  const events = {
    onZoom: nothing,
    onRange: nothing,
    onReset: nothing,
    onLayout: nothing,
    onCursor: nothing,
    pinned: () => false,
    onPin: nothing,
    onMark: nothing,
    onMove: nothing,
  };
  const host = { append: nothing, addEventListener: nothing } as unknown as HTMLElement;
  const one = new Chart(host, events);
  one.resize(900, 500);
  return one;
}

describe("the chart", () => {
  it("answers the old plot by the old plan when a run with fewer metrics takes over", () => {
    const overlay = chart();
    overlay.show(scene("all", ["loss", "grad_norm", "lr"]));
    overlay.show(scene("bare", ["loss", "lr"]));
    expect(made).toHaveLength(2);
    expect(made[0]!.destroyed).toBe(true);
    for (const plot of made) expect(plot.asks().every((answer) => Array.isArray(answer))).toBe(true);
  });

  it("keeps its plot while the metrics stay, with the plan of the newest scene", () => {
    const overlay = chart();
    overlay.show(scene("a", ["loss"]));
    const before = made[0]!.asks();
    overlay.show({ ...scene("b", ["loss"]), zoom: { from: 2, to: 3 } });
    expect(made).toHaveLength(1);
    expect(made[0]!.asks()).not.toEqual(before);
    expect(made[0]!.asks()[0]).toEqual([2, 3]);
  });

  it("stretches its picture while the points of a new window are on their way", () => {
    vi.useFakeTimers();
    const one = chart();
    const first = scene("a", ["loss"]);
    one.show(first);
    const drawn = made[0]!.drawn;
    const moved = vi.spyOn(one, "preview").mockImplementation(() => {});
    const zoomed = { ...first, zoom: { from: 1, to: 2 }, pending: true };
    one.show(zoomed);
    expect(moved).toHaveBeenCalledWith({ from: 1, to: 2 });
    expect(made[0]!.drawn).toBe(drawn);
    one.show({ ...zoomed, pending: false, segments: [...first.segments] });
    expect(made[0]!.drawn).toBe(drawn + 1);
    // A server that takes its time: what is there is drawn.
    one.show({ ...zoomed, zoom: { from: 1, to: 3 } });
    one.show({ ...zoomed, zoom: { from: 2, to: 3 } });
    vi.advanceTimersByTime(1000);
    expect(made[0]!.drawn).toBe(drawn + 3);
    vi.useRealTimers();
  });

  it("does not draw again for each run's findings, but for all that came in a while", () => {
    vi.useFakeTimers();
    const one = chart();
    const first = scene("a", ["loss"]);
    one.show(first);
    const drawn = made[0]!.drawn;
    for (let i = 0; i < 5; i++) one.show({ ...first, zoom: null, findings: new Map() });
    expect(made[0]!.drawn).toBe(drawn);
    vi.advanceTimersByTime(1000);
    expect(made[0]!.drawn).toBe(drawn + 1);
    // Anything else is drawn at once, with what was found until then.
    one.show({ ...first, zoom: { from: 1, to: 2 }, findings: new Map() });
    expect(made[0]!.drawn).toBe(drawn + 2);
    vi.useRealTimers();
  });
});
