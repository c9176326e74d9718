import { describe, expect, it } from "vitest";
import { assignSlots, homeSlot, SLOTS } from "../src/palette";

const many = Array.from({ length: 400 }, (_, i) => `gpt_lr1e-4_seed${i}`);

describe("run colours", () => {
  it("belong to the name", () => {
    expect(homeSlot("gpt_lr3e-4")).toBe(homeSlot("gpt_lr3e-4"));
    const slots = assignSlots(["gpt_lr3e-4"], new Map());
    expect(slots.get("gpt_lr3e-4")).toBe(homeSlot("gpt_lr3e-4"));
  });

  it("spread names that differ in one digit", () => {
    const used = new Map<number, number>();
    for (const name of many) used.set(homeSlot(name), (used.get(homeSlot(name)) ?? 0) + 1);
    expect(used.size).toBe(SLOTS);
    expect(Math.max(...used.values())).toBeLessThan(2 * (many.length / SLOTS));
  });

  it("differ between up to twelve drawn runs", () => {
    const slots = assignSlots(many.slice(0, 12), new Map());
    expect(new Set(slots.values()).size).toBe(12);
  });

  it("stay with a drawn run when others join", () => {
    const first = assignSlots(many.slice(0, 3), new Map());
    const later = assignSlots([...many.slice(20, 26), ...many.slice(0, 3)], first);
    for (const run of many.slice(0, 3)) expect(later.get(run)).toBe(first.get(run));
  });

  it("repeat past twelve instead of failing", () => {
    const slots = assignSlots(many, new Map());
    expect(slots.size).toBe(400);
    for (const slot of slots.values()) expect(slot).toBeLessThan(SLOTS);
  });
});
