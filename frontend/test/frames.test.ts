import { expect, it } from "vitest";
import type { SeriesQuery } from "../src/api";
import { decodeSeries } from "../src/decode";
import { Frames } from "../src/frames";
import { encode } from "./thb1";

const frame = (key: string, points = 10) => {
  const x = Array.from({ length: points }, (_, i) => i);
  const { segments } = decodeSeries(
    encode([
      { run: "a", role: "loss", x, last: x },
      { run: "a", role: "lr", x, last: x },
    ]),
  );
  return { key, query: {} as SeriesQuery, segments, missing: [] };
};

it("keeps the windows used last, up to so many bytes", () => {
  const size = frame("x").segments[0]!.x.buffer.byteLength; // counted once an answer, not once a series
  const frames = new Frames(3 * size);
  for (const key of ["a", "b", "c"]) frames.put(frame(key));
  expect(frames.get("a")!.key).toBe("a");
  frames.put(frame("d"));
  expect(["a", "b", "c", "d"].map((key) => frames.get(key)?.key ?? null)).toEqual(["a", null, "c", "d"]);
  frames.put(frame("large", 1000));
  expect(frames.get("large")).not.toBeNull(); // what is on the screen stays, whatever its size
  expect(frames.get("d")).toBeNull();
  frames.clear();
  expect(frames.get("large")).toBeNull();
});
