import { describe, expect, it } from "vitest";
import { DecodeError, decodeSeries } from "../src/decode";
import { encode } from "./thb1";

describe("decodeSeries", () => {
  const buffer = encode(
    [
      {
        run: "ä/1",
        role: "loss",
        x: [1, 2, 3],
        last: [3, Number.NaN, 1],
        min: [2, Number.NaN, 1],
        max: [4, Number.NaN, 1],
        smoothed: [3, 3, 2],
        nonfinite: { idx: [1], nan: [2], posinf: [0], neginf: [1] },
      },
      { run: "b", role: "lr", x: [1], last: [0.5], current: false },
    ],
    [{ run: "b", role: "loss", reason: "not logged" }],
  );

  it("reads every column of every segment", () => {
    const { segments, missing } = decodeSeries(buffer);
    const [loss, lr] = segments;
    expect(loss).toMatchObject({ run: "ä/1", role: "loss", n: 3, raw: false, current: true });
    expect([...loss!.x]).toEqual([1, 2, 3]);
    expect([...loss!.min]).toEqual([2, Number.NaN, 1]);
    expect([...loss!.max]).toEqual([4, Number.NaN, 1]);
    expect([...loss!.smoothed!]).toEqual([3, 3, 2]);
    expect([...loss!.nonfinite!.neginf]).toEqual([1]);
    expect(lr).toMatchObject({
      run: "b",
      role: "lr",
      raw: true,
      current: false,
      smoothed: null,
      nonfinite: null,
    });
    expect(missing).toEqual([{ run: "b", role: "loss", reason: "not logged" }]);
  });

  it("makes views on the answer and copies nothing", () => {
    const [, lr] = decodeSeries(buffer).segments;
    expect(lr!.x.buffer).toBe(buffer);
    expect(lr!.min.byteOffset).toBe(lr!.last.byteOffset);
  });

  it.each([
    ["nothing", new ArrayBuffer(0)],
    ["another format", new TextEncoder().encode("PK\u0003\u0004........").buffer],
    ["a cut-off header", buffer.slice(0, 40)],
    ["a cut-off body", buffer.slice(0, buffer.byteLength - 16)],
  ])("refuses %s", (_what, broken) => {
    expect(() => decodeSeries(broken as ArrayBuffer)).toThrow(DecodeError);
  });
});
