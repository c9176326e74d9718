import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../src/api";
import { Retry } from "../src/retry";

const gone = new ApiError("TensorBoard does not answer.", "Is it running?", true);

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("trying again", () => {
  it("comes later and later, and at once again after a success", () => {
    const again = vi.fn();
    const retry = new Retry(again);
    const wait = () => retry.failed(gone).retryAt! - Date.now();
    expect([wait(), wait(), wait(), wait(), wait(), wait()]).toEqual([2e3, 4e3, 8e3, 16e3, 30e3, 30e3]);
    retry.succeeded();
    expect(retry.pending).toBe(false);
    expect(wait()).toBe(2e3);
    vi.advanceTimersByTime(1999);
    expect(again).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(again).toHaveBeenCalledOnce();
  });

  it("does not come where it cannot help, or once it was stopped", () => {
    const again = vi.fn();
    const retry = new Retry(again);
    expect(retry.failed(new ApiError("Bad.", "Do this.", false))).toEqual({
      message: "Bad.",
      hint: "Do this.",
      retryAt: null,
    });
    retry.failed(gone);
    retry.stop();
    vi.advanceTimersByTime(60_000);
    expect(again).not.toHaveBeenCalled();
  });
});
