import { describe, expect, it } from "vitest";
import { xScale } from "../src/chart/xscale";
import { decodeSeries } from "../src/decode";
import type { ChartRole } from "../src/roles";
import { exactly, valuesAsText, valuesAt } from "../src/values";
import { runInfo } from "./run-info";
import { encode, type TestSegment } from "./thb1";

const ROLES: ChartRole[] = ["loss", "lr"];

function sceneOf(segments: TestSegment[]) {
  const names = [...new Set(segments.map((s) => s.run))];
  return {
    segments: decodeSeries(encode(segments)).segments,
    roles: ROLES,
    runs: names.map((run) => ({ run, info: runInfo(run), label: run, colour: "#000000" })),
  };
}

function planOf(from: number, to: number) {
  const window = { from, to };
  return { window, x: xScale("step", false, window) };
}

const SCENE = sceneOf([
  { run: "a", role: "loss", x: [1, 2, 3], last: [5, 0.1, 3] },
  { run: "a", role: "lr", x: [1, 2, 3], last: [1e-3, 2e-3, 3e-3] },
  { run: "a", role: "loss", x: [2, 3], last: [7, 8], current: false },
  { run: "b", role: "loss", x: [1, 2, 40], last: [9, 9, 4] },
]);

describe("values at the cursor", () => {
  it("are those of every run, and of what a restart superseded", () => {
    const rows = valuesAt(SCENE, planOf(0, 40), 2);
    const said = rows.map(({ run, reading }) => [run, reading?.superseded, reading?.x]);
    expect(said).toEqual([
      ["a", false, 2],
      ["a", true, 2],
      ["b", false, 2],
    ]);
    expect(rows[0]!.reading!.cells.lr).toEqual({ x: 2, value: Math.fround(2e-3) });
  });

  it("leave no run out that has none there", () => {
    const rows = valuesAt(SCENE, planOf(0, 40), 20);
    expect(rows.map(({ run, reading }) => [run, reading?.x ?? null])).toEqual([
      ["a", null],
      ["b", 2],
    ]);
  });

  it("are the last ones shown where there is no cursor", () => {
    const last = (to: number) => valuesAt(SCENE, planOf(0, to), null).map(({ reading }) => reading?.x);
    expect(last(40)).toEqual([3, 40]);
    expect(last(2.5)).toEqual([2, 2]);
  });

  it("are copied with all digits of what was logged, and no more", () => {
    const text = valuesAsText(valuesAt(SCENE, planOf(0, 40), 2), ROLES, "step");
    expect(text.split("\n")).toEqual([
      "run\tcurrent\tstep\tloss\tlr",
      "a\ttrue\t2\t0.1\t0.002",
      "a\tfalse\t2\t7\t",
      "b\ttrue\t2\t9\t",
      "",
    ]);
  });
});

describe("a single-precision number", () => {
  it("is written as its shortest decimal", () => {
    for (const value of [0.1, 1 / 3, 3e-4, 65536, 16_777_217, -1.5e-42, 3.4028235e38]) {
      const written = exactly(Math.fround(value));
      expect(Math.fround(Number(written))).toBe(Math.fround(value));
      expect(written.length).toBeLessThan(15);
    }
    expect(exactly(Math.fround(0.1))).toBe("0.1");
    expect([Number.NaN, 1 / 0, -1 / 0].map(exactly)).toEqual(["nan", "inf", "-inf"]);
  });
});
