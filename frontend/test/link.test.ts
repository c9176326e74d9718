import { describe, expect, it } from "vitest";
import { scopeOf } from "../src/findings";
import { coloursFromLink, type LinkContext, shortHash, viewFromLink, viewToLink } from "../src/link";
import { DEFAULT_VIEW, type View } from "../src/state";

const many = Array.from({ length: 1000 }, (_, i) => `sweep/gpt-350m_lr${i % 7}e-4_wd0.${i % 3}_seed${i}`);
const context = (runs: readonly string[], more: Partial<LinkContext> = {}): LinkContext => ({
  runs,
  visible: runs,
  drawn: runs.slice(0, 50),
  colours: new Map(),
  ...more,
});

/** As an address carries it: as text. */
const there = (view: View, at: LinkContext): string => viewToLink(view, at).toString();
const back = (text: string, runs: readonly string[]) => viewFromLink(new URLSearchParams(text), runs);

describe("a link", () => {
  it("restores a view", () => {
    const runs = ["a/b c", "ü&=#", "100%,sure", "*star", '<b>"quoted"</b>', "🙂"];
    const view: View = {
      ...DEFAULT_VIEW,
      runs,
      x: "wall",
      from: 1.5,
      to: 9,
      smoothing: 0.97,
      many: "merged",
      y: "robust",
      filter: "^a|b",
      chart: "stacked",
      columns: 3,
      logX: true,
      yLock: true,
      scales: { loss: "log", lr: "linear" },
      ranges: { loss: [1.5, 3], lr: [-1, 1e-3] },
      level: "critical",
      finding: "loss_spike.700.abc",
      findingsOf: scopeOf("ü&=#"),
      baseline: "100%,sure",
      given: { "objective/total": "loss", "a,b:c%": "lr" },
      tolerance: 0.005,
      absolute: 1e-7,
      drawAll: true,
      theme: "dark",
      every: 10,
    };
    const text = there(view, context([...runs, "another"]));
    expect({ ...DEFAULT_VIEW, ...back(text, [...runs, "another"]) }).toEqual(view);
  });

  it("says nothing of what is as usual, nor of colours that follow TensorBoard's", () => {
    expect(there(DEFAULT_VIEW, context([]))).toBe("");
    expect(there({ ...DEFAULT_VIEW, theme: "dark" }, context([]))).toBe("theme=dark");
    expect(back("", [])).toEqual({});
  });

  it("names whose findings are listed, however long the name", () => {
    const runs = ["a", "all", "x".repeat(4096)];
    for (const scope of ["all", ...runs.map(scopeOf)]) {
      const text = there({ ...DEFAULT_VIEW, findingsOf: scope }, context(runs));
      expect(text.length).toBeLessThan(400);
      expect(back(text, runs).findingsOf).toBe(scope);
    }
    expect(back("findingsOf=some", runs)).toEqual({});
  });

  it("has what tags mean, as far as there is room, part by part", () => {
    const given = Object.fromEntries(
      Array.from({ length: 90 }, (_, i) => [`layer_${i}/value`, "loss"] as const),
    );
    const text = there({ ...DEFAULT_VIEW, given }, context([]));
    expect(text.length).toBeLessThan(1000);
    const read = Object.entries(back(text, []).given!);
    expect(read.length).toBeGreaterThan(20);
    expect(read).toEqual(Object.entries(given).slice(0, read.length));
    expect(there({ ...DEFAULT_VIEW, given: { ["x".repeat(4096)]: "loss" } }, context([]))).toBe("");
    expect(back("given=moon:a,loss:,lr:b,,loss", []).given).toEqual({ b: "lr" });
    expect(back("given=nothing", [])).toEqual({});
  });

  it("has the colours that the user gave to what is drawn", () => {
    const colours = new Map(many.map((run, i) => [run, i % 12] as const));
    const text = there(DEFAULT_VIEW, context(many, { colours }));
    expect(text.length).toBeLessThan(500);
    const read = coloursFromLink(new URLSearchParams(text), many);
    expect([...read]).toEqual([...colours].slice(0, 50));
    expect(there(DEFAULT_VIEW, context(["a"], { drawn: [], colours: new Map([["a", 3]]) }))).toBe("");
    for (const odd of [
      "colours=xyz",
      "colours=",
      `colours=${shortHash("a")}Z`,
      `colours=${shortHash("b")}1`,
      "",
    ])
      expect(coloursFromLink(new URLSearchParams(odd), ["a"])).toEqual(new Map());
  });

  it("tells an empty choice from no choice", () => {
    expect(back(there({ ...DEFAULT_VIEW, runs: [] }, context(["a"])), ["a"]).runs).toEqual([]);
    expect(back(there(DEFAULT_VIEW, context(["a"])), ["a"]).runs).toBeUndefined();
  });

  it("ignores what is malformed part by part, and runs that are gone", () => {
    expect(back("scales=loss:cubic&ranges=loss:3:2&columns=7&chart=pie&logX=perhaps", [])).toEqual({});
    expect(back("theme=pink&every=7&drawAll=1&findingsOf=run:~gone&absolute=-1", [])).toEqual({});
    expect(back("smoothing=&x=wall&from=5&to=2&level=worst", [])).toEqual({ x: "wall" });
    expect(back("runs=gone,a&filter=(", ["a"])).toEqual({ runs: ["a"], filter: "(" });
    expect(back("runs=gone", ["a"])).toEqual({});
    expect(back("runs=~%25%25&nonsense=1&__proto__=2&constructor=3", ["a"])).toEqual({});
  });

  it.each([
    ["those that a filter shows", { filter: "wd0.1" }, many.filter((r) => /wd0.1/.test(r))],
    ["a hundred of a thousand", {}, many.filter((_, i) => i % 10 === 3)],
    ["all but a hundred", {}, many.filter((_, i) => i % 10 !== 3)],
    ["all", {}, many],
    ["one with a name of 4 kB", {}, [`${"x".repeat(4096)}`]],
  ])("stays short for %s", (_, more, runs) => {
    const all = [...new Set([...many, ...runs])];
    const view = { ...DEFAULT_VIEW, ...more, runs, baseline: runs[0]! };
    const visible = all.filter((r) => new RegExp(view.filter).test(r));
    const text = there(view, context(all, { visible }));
    expect(text.length).toBeLessThan(2000);
    const read = back(text, all);
    expect(new Set(read.runs)).toEqual(new Set(runs));
    expect(read.baseline).toBe(runs[0]);
  });

  it("of an arbitrary half of a thousand runs has at least what is drawn", () => {
    const runs = many.filter((_, i) => (i * 7919) % 1000 < 500);
    const drawn = runs.slice(100, 150);
    const text = there({ ...DEFAULT_VIEW, runs }, context(many, { drawn }));
    expect(text.length).toBeLessThan(2000);
    expect(back(text, many).runs).toEqual(drawn);
  });

  it("tells a thousand names apart by five characters", () => {
    expect(new Set(many.map(shortHash)).size).toBe(1000);
  });
});
