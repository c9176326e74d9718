import { describe, expect, it } from "vitest";
import { commonPrefix, distinctParts, middleEllipsis, sayable } from "../src/names";

describe("run names", () => {
  it("share a prefix up to a separator", () => {
    expect(commonPrefix(["sweep/gpt_lr1", "sweep/gpt_lr12"])).toBe("sweep/gpt_");
    expect(commonPrefix(["abc1", "abc2"])).toBe("");
    expect(commonPrefix(["only/one"])).toBe("");
    expect(commonPrefix(["a/b", "a/b/c"], 1)).toBe("a/");
  });

  it("are told apart by what differs", () => {
    const parts = distinctParts(["gpt_lr3e-4_bs256", "gpt_lr1e-3_bs256"]);
    expect([...parts.values()]).toEqual(["lr3e-4", "lr1e-3"]);
  });

  it("never become empty", () => {
    for (const part of distinctParts(["run_", "run_a", "run_a_b"]).values()) expect(part).not.toBe("");
    expect(distinctParts(["x"]).get("x")).toBe("x");
  });

  it("are cut in the middle, keeping their ends", () => {
    expect(middleEllipsis("gpt-350m_lr1e-4_warm500_seed2", 20)).toBe("gpt-350m_l…500_seed2");
    expect(middleEllipsis("short", 20)).toBe("short");
    expect(middleEllipsis("abcdefghijkl", 6).length).toBeLessThanOrEqual(6);
  });

  it("leave room for the sentence that they stand in", () => {
    expect(sayable(`${"long/".repeat(800)}seed7`)).toMatch(/^long.*….*seed7$/);
    expect(sayable("x".repeat(4000)).length).toBeLessThanOrEqual(60);
  });
});
