import { describe, expect, it } from "vitest";
import type { RunInfo } from "../src/api";
import type { Role } from "../src/roles";
import { defaultChoice, drawnRuns, filterRuns, isLive, listOrder, MOST_DRAWN } from "../src/selection";
import { runInfo, SERIES } from "./run-info";

const run = (name: string, time: number, roles: Role[] = ["loss"], more: Partial<RunInfo> = {}): RunInfo =>
  runInfo(name, {
    last_wall_time: time,
    roles: Object.fromEntries(roles.map((r) => [r, SERIES])),
    ...more,
  });

describe("the list", () => {
  it("is newest first, and rows keep their place afterwards", () => {
    const before = listOrder([run("a", 1), run("b", 3), run("c", 2)], []);
    expect(before).toEqual(["b", "c", "a"]);
    expect(listOrder([run("a", 9), run("c", 2), run("d", 5)], before)).toEqual(["d", "c", "a"]);
  });

  it("is filtered by a regular expression, case ignored", () => {
    expect(filterRuns(["gpt_A", "bert"], "^GPT").visible).toEqual(["gpt_A"]);
  });

  it("shows everything while the pattern is none, and says why", () => {
    const filter = filterRuns(["a", "b"], "lr(1e");
    expect(filter.visible).toEqual(["a", "b"]);
    expect(filter.problem).toBe("Unterminated group");
  });
});

describe("the first picture", () => {
  it("is a run in training, the one that shows most", () => {
    const runs = [
      run("old", 1, ["loss", "lr", "grad_norm", "loss_scale"]),
      run("live", 5, ["loss", "lr"], { status: "running" }),
      run("live2", 6, ["loss"], { status: "running" }),
    ];
    expect(defaultChoice(runs)).toEqual(["live"]);
  });

  it("is the newest of those that show most where all have ended", () => {
    const runs = [run("a", 1, ["loss", "lr"]), run("b", 2, ["loss", "lr"]), run("c", 3)];
    expect(defaultChoice(runs)).toEqual(["b"]);
  });

  it("falls back to a run without loss, and to nothing", () => {
    expect(defaultChoice([run("e", 1, ["eval_loss"])])).toEqual(["e"]);
    expect(defaultChoice([])).toEqual([]);
  });
});

describe("drawing", () => {
  const runs = Array.from({ length: 60 }, (_, i) =>
    run(`r${i}`, i, ["loss"], i === 3 ? { verdict: "critical" } : {}),
  );
  const known = new Map(runs.map((r) => [r.run, r]));
  const names = runs.map((r) => r.run);

  it("stops at its limit, runs with findings first, then the newest", () => {
    const { runs: drawn, left } = drawnRuns(known, names, false);
    expect(drawn).toHaveLength(MOST_DRAWN);
    expect(left).toBe(10);
    expect(drawn.map((r) => r.run)).toContain("r3");
    expect(drawn.map((r) => r.run)).not.toContain("r0");
  });

  it("draws all when asked to, and never what is unknown or has no axis", () => {
    expect(drawnRuns(known, names, true).runs).toHaveLength(60);
    const some = new Map([...known, ["e", run("e", 1, ["eval_loss"])]]);
    const drawn = drawnRuns(some, ["e", "gone", "r1"], false);
    expect(drawn.runs.map((r) => r.run)).toEqual(["r1"]);
    expect(drawn.without).toEqual(["e"]);
  });

  it("never leaves out what the others are compared with", () => {
    const { runs: drawn } = drawnRuns(known, names, false, ["loss"], "r0");
    expect(drawn).toHaveLength(MOST_DRAWN);
    expect(drawn.map((r) => r.run)).toContain("r0");
    expect(drawn.map((r) => r.run)).toContain("r3");
  });
});

describe("a training is live", () => {
  const running = (age: number) => run("a", 1000 - age, ["loss"], { status: "running" });

  it("while a running run's newest event is younger than two minutes", () => {
    expect(isLive([running(5)], 1000)).toBe(true);
    expect(isLive([running(660)], 1000)).toBe(false);
    expect(isLive([running(660), run("ended", 999)], 1000)).toBe(false);
  });
});
