import { describe, expect, it } from "vitest";
import { placeInRow, separateLabels } from "../src/chart/labels";

const box = (y: number, left = 0, width = 50) => ({ left, width, y });

describe("separateLabels", () => {
  it("leaves labels alone that are far enough apart", () => {
    expect(separateLabels([box(10), box(40)], 14, 0, 100)).toEqual([10, 40]);
  });

  it("moves colliding ones apart around their middle, in their order", () => {
    expect(separateLabels([box(52), box(50)], 14, 0, 100)).toEqual([58, 44]);
  });

  it("does not move labels that share no stretch of x", () => {
    expect(separateLabels([box(50), box(50, 60)], 14, 0, 100)).toEqual([50, 50]);
  });

  it("keeps all of them inside the frame", () => {
    const placed = separateLabels([box(99), box(98), box(97)], 14, 7, 93);
    expect(Math.max(...placed)).toBeLessThanOrEqual(93);
    const sorted = [...placed].sort((a, b) => a - b);
    for (let i = 1; i < 3; i++) expect(sorted[i]! - sorted[i - 1]!).toBeGreaterThanOrEqual(14);
  });

  it("pushes a third one on that a moved pair runs into", () => {
    const sorted = separateLabels([box(50), box(51), box(66)], 14, 0, 200).sort((a, b) => a - b);
    for (let i = 1; i < 3; i++) expect(sorted[i]! - sorted[i - 1]!).toBeGreaterThanOrEqual(13.999);
  });
});

describe("pills in a row", () => {
  const row = (at: number[], width = 16, last = 500) =>
    placeInRow(
      at.map((one) => ({ at: one, width })),
      4,
      10,
      last,
    );

  it("stay where they belong while there is room", () => {
    expect(row([50, 100, 300])).toEqual([50, 100, 300]);
  });

  it("stand around their common place where there is none", () => {
    expect(row([100, 100, 100])).toEqual([80, 100, 120]);
    expect(row([100, 105, 300])).toEqual([92.5, 112.5, 300]);
  });

  it("keep their order, their distance and the row", () => {
    const places = row([0, 3, 5, 498, 499, 500]);
    expect(places[0]).toBe(10);
    expect(places.at(-1)).toBe(500);
    for (let i = 1; i < places.length; i++) {
      expect(places[i]! - places[i - 1]!).toBeGreaterThanOrEqual(20 - 1e-9);
    }
    expect(row([])).toEqual([]);
  });
});
