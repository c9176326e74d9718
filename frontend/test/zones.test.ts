import { describe, expect, it } from "vitest";
import { LANE_GAP, laneBands, mergedBands, stretchedRange } from "../src/chart/zones";
import { OVERLAY_ROLES } from "../src/roles";

describe("lanes", () => {
  const bands = laneBands(OVERLAY_ROLES, 690);

  it("share the height without touching", () => {
    expect(bands[0]!.top).toBe(0);
    expect(bands[3]!.bottom).toBeCloseTo(690);
    for (let i = 1; i < bands.length; i++) expect(bands[i]!.top - bands[i - 1]!.bottom).toBeCloseTo(LANE_GAP);
  });

  it("give the loss 55 % of what the gaps leave", () => {
    expect(bands[0]!.bottom - bands[0]!.top).toBeCloseTo(0.55 * (690 - 3 * LANE_GAP));
  });

  it("are readable in a small window, as far as the loss has something to spare", () => {
    const sizes = (height: number) =>
      laneBands(OVERLAY_ROLES, height).map(({ top, bottom }) => Math.round(bottom - top));
    // By their shares they would be 127, 41, 28 and 34.
    expect(sizes(230 + 3 * LANE_GAP)).toEqual([98, 44, 44, 44]);
    const [loss, ...others] = sizes(180 + 3 * LANE_GAP);
    expect(loss).toBe(88);
    expect(Math.min(...others)).toBeGreaterThan(0.12 * 180);
    // With nothing to spare the shares hold.
    expect(sizes(100 + 3 * LANE_GAP)).toEqual([55, 18, 12, 15]);
    expect(laneBands(OVERLAY_ROLES, 320).at(-1)!.bottom).toBeCloseTo(320);
  });

  it("leave no hole for an absent role", () => {
    const [loss, lr] = laneBands(["loss", "lr"], 400);
    expect(loss!.bottom + LANE_GAP).toBeCloseTo(lr!.top);
    expect(lr!.bottom).toBeCloseTo(400);
  });
});

describe("stretchedRange", () => {
  it("puts the data's ends on the band's edges", () => {
    const height = 500;
    for (const band of laneBands(OVERLAY_ROLES, height)) {
      const [min, max] = stretchedRange(2, 6, band, height);
      const pixel = (v: number) => height * (1 - (v - min) / (max - min));
      expect(pixel(6)).toBeCloseTo(band.top);
      expect(pixel(2)).toBeCloseTo(band.bottom);
    }
  });
});

it("Merged gives a single role the whole frame", () => {
  const [band] = mergedBands(["lr"], 100);
  expect(band!.bottom - band!.top).toBeGreaterThan(90);
});
