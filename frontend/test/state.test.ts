import { describe, expect, it } from "vitest";
import { parseView } from "../src/state";

describe("view state", () => {
  it("ignores malformed parts one by one", () => {
    expect(
      parseView({ x: "moon", smoothing: 0.5, runs: [1], y: "robust", from: "a", to: 3, theme: null }),
    ).toEqual({
      smoothing: 0.5,
      y: "robust",
    });
  });

  it.each([null, 7, "text", [], undefined])("makes nothing of %s", (raw) => {
    expect(parseView(raw)).toEqual({});
  });
});
