import { afterEach, describe, expect, it } from "vitest";
import type { Finding } from "../src/api";
import {
  findingId,
  findingsAsCsv,
  findingsAsText,
  pointsOf,
  remarks,
  sortFindings,
  stretchOf,
  worst,
} from "../src/findings";
import { speak } from "../src/text";
import { runInfo, SERIES } from "./run-info";

const finding = (more: Partial<Finding> = {}): Finding => ({
  rule: "loss_spike",
  severity: "warning",
  run: "a",
  role: "loss",
  tag: "loss",
  first_step: 500,
  last_step: 500,
  peak_step: 500,
  message: "Loss jumped.",
  advice: "Look at the batch.",
  evidence: {},
  ...more,
});

const long = runInfo("a", { roles: { loss: { ...SERIES, first_step: 0, last_step: 10_000 } } });

afterEach(() => speak("en"));

describe("how much there is to judge", () => {
  it("is the longest curve, and unknown where one was not read", () => {
    const loss = { ...SERIES, points: 3 };
    expect(pointsOf(runInfo("a", { roles: {} }))).toBe(0);
    expect(pointsOf(runInfo("a", { roles: { loss, lr: { ...SERIES, points: 80 } } }))).toBe(80);
    expect(pointsOf(runInfo("a", { roles: { loss, lr: { ...SERIES, points: null } } }))).toBe(null);
  });
});

describe("findings", () => {
  it("are listed worst first, then in the order of the runs and steps", () => {
    const all = [
      finding({ severity: "info", run: "b" }),
      finding({ severity: "critical", run: "b", first_step: 9 }),
      finding({ severity: "critical", run: "b", first_step: 3 }),
      finding({ severity: "critical", run: "a", first_step: 7 }),
    ];
    const sorted = sortFindings(all, ["a", "b"]).map((f) => `${f.severity} ${f.run} ${f.first_step}`);
    expect(sorted).toEqual(["critical a 7", "critical b 3", "critical b 9", "info b 500"]);
  });

  it("have short names that tell them apart", () => {
    const name = "x".repeat(4096);
    const ids = [
      finding(),
      finding({ run: name }),
      finding({ run: `${name}y` }),
      finding({ first_step: 1 }),
      finding({ tag: "other" }),
    ].map(findingId);
    expect(new Set(ids).size).toBe(5);
    expect(Math.max(...ids.map((id) => id.length))).toBeLessThan(60);
  });

  it("are shown with what came before and after", () => {
    const { from, to } = stretchOf(finding({ first_step: 5000, last_step: 6000 }), long);
    expect(from).toBeLessThan(4800);
    expect(from).toBeGreaterThan(4000);
    expect(to).toBeGreaterThan(6200);
    expect(to).toBeLessThan(7000);
  });

  it("at one step get room around them, within the run", () => {
    const { from, to } = stretchOf(finding({ first_step: 10, last_step: 10 }), long);
    expect(from).toBe(0);
    expect(to).toBeGreaterThan(100);
    const single = runInfo("a", { roles: { loss: { ...SERIES, first_step: 5, last_step: 5 } } });
    const only = stretchOf(finding({ first_step: 5, last_step: 5 }), single);
    expect(only.from).toBeLessThan(only.to);
  });

  it("are copied as sentences in the language in use", () => {
    const stretch = finding({ first_step: 1200, last_step: 3400 });
    expect(findingsAsText([stretch])).toBe(
      "[warning] a, steps 1,200 to 3,400: Loss jumped.\n  Try: Look at the batch.",
    );
    speak("zh");
    expect(findingsAsText([finding()])).toContain("[警告] a，第 500 步：");
  });

  it("are saved as CSV that quotes what needs it", () => {
    const lines = findingsAsCsv([finding({ run: 'a "b", c', message: "two\nlines" })]);
    expect(lines).toContain('"a ""b"", c"');
    expect(lines).toContain('"two\nlines"');
    expect(lines.split("\r\n")[0]).toMatch(/^severity,run,rule/);
  });

  it("give a run its verdict in numbers, and leave its other notes", () => {
    const run = runInfo("a", {
      findings: { critical: 0, warning: 2, info: 1 },
      notes: ["w1", "And 2 more findings.", "damaged"],
      notes_of_findings: 2,
    });
    expect(worst(run)).toEqual({ severity: "warning", count: 2 });
    expect(remarks(run)).toEqual(["damaged"]);
    expect(worst(runInfo("b"))).toBeNull();
  });
});
