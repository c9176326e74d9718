import { describe, expect, it } from "vitest";
import { DEFAULT_VIEW, parseView, viewFromHash, viewToHash } from "../src/state";

describe("view state", () => {
  it("survives the way through a link", () => {
    const view = {
      ...DEFAULT_VIEW,
      runs: ["a/b c", "ü&=#"],
      x: "wall" as const,
      from: 1.5,
      to: 9,
      smoothing: 0.97,
      many: "merged" as const,
      y: "robust" as const,
      filter: "^a|b",
      chart: "stacked" as const,
      columns: 3 as const,
      logX: true,
      yLock: true,
      scales: { loss: "log", lr: "linear" } as const,
      ranges: { loss: [1.5, 3] as const, lr: [-1, 1e-3] as const },
    };
    expect({ ...DEFAULT_VIEW, ...viewFromHash(`#${viewToHash(view)}`) }).toEqual(view);
  });

  it("tells an empty choice from no choice", () => {
    expect(viewFromHash(viewToHash({ ...DEFAULT_VIEW, runs: [] })).runs).toEqual([]);
    expect(viewFromHash(viewToHash(DEFAULT_VIEW)).runs).toBeUndefined();
  });

  it("ignores malformed parts one by one", () => {
    expect(
      parseView({ x: "moon", smoothing: 0.5, runs: [1], y: "robust", from: "a", to: 3, theme: null }),
    ).toEqual({
      smoothing: 0.5,
      y: "robust",
    });
    expect(viewFromHash("#scales=loss:cubic&ranges=loss:3:2&columns=7&chart=pie&logX=perhaps")).toEqual({
      logX: false,
    });
    expect(viewFromHash("#smoothing=&x=wall&from=5&to=2&smoothing=two")).toEqual({ x: "wall" });
  });

  it.each([null, 7, "text", [], undefined])("makes nothing of %s", (raw) => {
    expect(parseView(raw)).toEqual({});
  });

  it("keeps a link short by leaving out a very long choice of runs", () => {
    const runs = Array.from({ length: 1000 }, (_, i) => `sweep/run_${i}`);
    const hash = viewToHash({ ...DEFAULT_VIEW, runs, x: "wall" });
    expect(hash.length).toBeLessThan(2000);
    expect(viewFromHash(hash)).toEqual({ x: "wall" });
  });
});
