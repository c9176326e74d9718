import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Address } from "../src/address";

/** A window with no more than an address needs. */
function page(hash: string, parent?: unknown) {
  const listeners = new Map<string, () => void>();
  const location = { hash, origin: "http://host", pathname: "/tb/", search: "?q=1" };
  const self = {
    location,
    history: {
      state: 7,
      replaceState: (_state: unknown, _title: string, url: string) => {
        location.hash = url.slice(url.indexOf("#") < 0 ? url.length : url.indexOf("#"));
      },
    },
    addEventListener: (kind: string, listener: () => void) => listeners.set(kind, listener),
    fire: (kind: string) => listeners.get(kind)?.(),
    parent,
  };
  self.parent ??= self;
  return self;
}
const address = (frame: unknown) => new Address(frame as Window);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("the address", () => {
  it("is that of TensorBoard's page, whose other parts stay", () => {
    const host = page("#scalars&p.other.x=1&tagFilter=a%26b&p.training_health.x=wall");
    const own = address(page("", host));
    expect([...own.read()]).toEqual([["x", "wall"]]);
    own.write(() => new URLSearchParams({ filter: "a&b=c" }));
    vi.runAllTimers();
    expect(host.location.hash).toBe(
      "#scalars&p.other.x=1&tagFilter=a%26b&p.training_health.filter=a%26b%3Dc",
    );
    expect(own.link(new URLSearchParams())).toBe("http://host/tb/?q=1#scalars&p.other.x=1&tagFilter=a%26b");
  });

  it("names the tab where the page does not yet", () => {
    const own = address(page("", page("")));
    expect(own.link(new URLSearchParams({ x: "wall" }))).toMatch(
      /#training_health&p\.training_health\.x=wall$/,
    );
  });

  it("is the frame's own where there is no page around it", () => {
    const frame = page("#x=wall&y=%E0%A4%A");
    const own = address(frame);
    expect([...own.read()]).toEqual([
      ["x", "wall"],
      ["y", "%E0%A4%A"],
    ]);
    own.write(() => new URLSearchParams({ x: "step" }));
    frame.fire("pagehide");
    expect(frame.location.hash).toBe("#x=step");
  });

  it("may not be looked at on another origin", () => {
    const other = {
      get location(): Location {
        throw new DOMException("cross-origin", "SecurityError");
      },
    };
    expect([...address(page("#x=wall", other)).read()]).toEqual([["x", "wall"]]);
  });

  it.each([
    ["reload", true],
    ["navigate", false],
  ])("is older than what this browser tab remembers after a %s: %s", (type, reloaded) => {
    const frame = { ...page(""), performance: { getEntriesByType: () => [{ type }] } };
    frame.parent = frame;
    expect(address(frame).reloaded).toBe(reloaded);
  });

  it("is written once for many changes", () => {
    const frame = page("");
    const replace = vi.spyOn(frame.history, "replaceState");
    const own = address(frame);
    for (const x of ["a", "b", "c"]) own.write(() => new URLSearchParams({ x }));
    vi.runAllTimers();
    expect(replace).toHaveBeenCalledTimes(1);
    expect(frame.location.hash).toBe("#x=c");
  });

  it("tells of changes by hand, not of another tab", () => {
    const host = page("#training_health");
    const tell = vi.fn();
    address(page("", host)).onChange(tell);
    host.location.hash = "#scalars&p.training_health.x=wall";
    host.fire("hashchange");
    expect(tell).not.toHaveBeenCalled();
    host.location.hash = "#training_health&p.training_health.x=wall";
    host.fire("hashchange");
    expect(tell).toHaveBeenCalledTimes(1);
    host.fire("hashchange"); // back from another tab: as it was
    expect(tell).toHaveBeenCalledTimes(1);
  });
});
