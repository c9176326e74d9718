import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Api, ApiError, type RunInfo, type SeriesQuery } from "../src/api";
import { decodeSeries, type SeriesAnswer } from "../src/decode";
import { Session } from "../src/session";
import { runInfo } from "./run-info";
import { encode } from "./thb1";

const run = (name: string, axes: RunInfo["axes"] = ["step", "wall"]): RunInfo => runInfo(name, { axes });

class FakeServer implements Api {
  readonly asked: { query: SeriesQuery; signal: AbortSignal; answer: (a: SeriesAnswer) => void }[] = [];
  fault: ApiError | null = null;
  list = [run("a"), run("b", ["step"])];

  /** What tags meant whenever the list was asked for, as the API itself takes it from the session. */
  readonly listedWith: unknown[] = [];
  session: Session | null = null;

  async runs() {
    if (this.fault) throw this.fault;
    if (this.session) this.listedWith.push(this.session.state.view.given);
    const searched = {
      logdir: "/logs",
      directories: 2,
      event_files: 2,
      tags: 2,
      without_role: 0,
      problems: [],
    };
    return { searched, runs: this.list, without_metrics: [] };
  }

  series(query: SeriesQuery, signal: AbortSignal) {
    return new Promise<SeriesAnswer>((answer, fail) => {
      signal.addEventListener("abort", () => fail(new DOMException("", "AbortError")));
      this.asked.push({ query, signal, answer });
    });
  }

  readonly checked: string[] = [];

  async findings(run: string, baseline: string | null, language: string) {
    this.checked.push(`${run} ${language}${baseline === null ? "" : ` against ${baseline}`}`);
    return [];
  }

  compare(): never {
    throw new Error("only the view of comparisons asks for them");
  }

  layout(): never {
    throw new Error("only its dialog asks for it");
  }

  tags(): never {
    throw new Error("only the choice of roles asks for it");
  }

  exportUrl(): string {
    return "";
  }

  async settle() {
    this.asked.at(-1)!.answer(decodeSeries(encode([{ run: "a", role: "loss", x: [1], last: [2] }])));
    await vi.advanceTimersByTimeAsync(0);
  }
}

function storage(): Storage {
  const kept = new Map<string, string>();
  return {
    getItem: (k: string) => kept.get(k) ?? null,
    setItem: (k: string, v: string) => kept.set(k, v),
  } as never;
}

let server: FakeServer;
let session: Session;

beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("location", { hash: "", pathname: "/", search: "" });
  vi.stubGlobal("history", { replaceState: () => {} });
  vi.stubGlobal("localStorage", storage());
  vi.stubGlobal("sessionStorage", storage());
  server = new FakeServer();
  session = new Session(server);
  void session.reload();
  await vi.advanceTimersByTimeAsync(0);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("a session", () => {
  it("aborts a request that another one overtakes", async () => {
    session.setView({ from: 1, to: 5 });
    expect(server.asked.map((a) => a.signal.aborted)).toEqual([true, false]);
    expect(server.asked[1]!.query).toMatchObject({ from: 1, to: 5, runs: ["a"] });
    await server.settle();
    expect(session.state).toMatchObject({ loading: false, problem: null });
  });

  it("sends one request for the many values of a slider", async () => {
    await server.settle();
    for (const smoothing of [0.1, 0.2, 0.3]) session.setView({ smoothing }, true);
    await vi.advanceTimersByTimeAsync(200);
    expect(server.asked.slice(1).map((a) => a.query.smoothing)).toEqual([0.3]);
  });

  it("keeps zoom and choice when the data are reloaded", async () => {
    session.setView({ from: 1, to: 5, runs: ["b", "a"] });
    void session.reload();
    await vi.advanceTimersByTimeAsync(0);
    expect(server.asked.at(-1)!.query).toMatchObject({ from: 1, to: 5, runs: ["b", "a"] });
  });

  it("keeps the last picture while the server is gone, and comes back by itself", async () => {
    await server.settle();
    const { frame } = session.state;
    server.fault = new ApiError("TensorBoard does not answer.", "", true);
    await session.reload();
    expect(session.state.frame).toBe(frame);
    expect(session.state.problem).toMatchObject({ message: "TensorBoard does not answer." });
    server.fault = null;
    await vi.advanceTimersByTimeAsync(2500);
    await server.settle();
    expect(session.state.problem).toBeNull();
  });

  it("does not insist where trying again cannot help", async () => {
    server.fault = new ApiError("Bad.", "", false);
    await session.reload();
    expect(session.state.problem!.retryAt).toBeNull();
  });

  it("drops a zoom whose axis is gone", async () => {
    session.setView({ x: "wall" });
    session.setView({ from: 1e9, to: 2e9 });
    session.setView({ runs: ["b"] });
    expect(session.x).toBe("step");
    expect(session.query).toMatchObject({ x: "step", from: null, to: null });
  });

  it("remembers the choice for the next visit, but not the zoom", async () => {
    session.setView({ runs: ["b"], from: 1, to: 5 });
    vi.stubGlobal("sessionStorage", storage());
    const next = new Session(server);
    void next.reload();
    await vi.advanceTimersByTimeAsync(0);
    expect(next.query).toMatchObject({ runs: ["b"], from: null });
  });

  it("keeps the theme and the interval of whoever opens a link, unless it names others", async () => {
    session.setView({ theme: "dark", every: 10 });
    const open = async (hash: string) => {
      vi.stubGlobal("location", { hash, pathname: "/", search: "" });
      const next = new Session(server);
      void next.reload();
      await vi.advanceTimersByTimeAsync(0);
      return next.state.view;
    };
    expect(await open("#x=wall")).toMatchObject({ x: "wall", theme: "dark", every: 10 });
    expect(await open("#theme=light&every=60&drawAll=true")).toMatchObject({
      theme: "light",
      every: 60,
      drawAll: true,
    });
  });

  it("lists the runs anew with what the user says of tags, and again at the next visit", async () => {
    server.session = session;
    const { queryKey } = session;
    session.setGiven({ "objective/total": "loss" });
    await vi.advanceTimersByTimeAsync(0);
    expect(server.listedWith).toEqual([{ "objective/total": "loss" }]);
    expect(session.queryKey).not.toBe(queryKey);
    vi.stubGlobal("sessionStorage", storage());
    const next = new Session(server);
    server.session = next;
    server.listedWith.length = 0;
    void next.reload();
    await vi.advanceTimersByTimeAsync(0);
    // Which log directory it is the first answer says.
    expect(server.listedWith).toEqual([{}, { "objective/total": "loss" }]);
    expect(next.state.view.given).toEqual({ "objective/total": "loss" });
  });

  it("takes what a link says of tags, and what it says besides", async () => {
    vi.stubGlobal("location", { hash: "#given=loss:objective/total&runs=b", pathname: "/", search: "" });
    const next = new Session(server);
    server.session = next;
    void next.reload();
    await vi.advanceTimersByTimeAsync(0);
    expect(server.listedWith).toEqual([{}, { "objective/total": "loss" }]);
    expect(next.state.view).toMatchObject({ given: { "objective/total": "loss" }, runs: ["b"] });
  });

  it("starts anew where all remembered runs are gone", async () => {
    session.setView({ runs: ["b"] });
    server.list = [run("c")];
    const next = new Session(server);
    void next.reload();
    await vi.advanceTimersByTimeAsync(0);
    expect(next.chosen).toEqual(["c"]);
  });

  it("asks for findings against the pinned baseline, also of runs in which nothing else is wrong", async () => {
    const fine = { critical: 0, warning: 0, info: 0 };
    server.list = server.list.map((one) => ({ ...one, findings: fine }));
    void session.reload();
    await vi.advanceTimersByTimeAsync(0);
    server.checked.length = 0;
    session.setView({ runs: ["a", "b"] });
    await vi.advanceTimersByTimeAsync(0);
    expect(server.checked).toEqual([]);
    session.setView({ baseline: "b" });
    await vi.advanceTimersByTimeAsync(0);
    expect(server.checked).toEqual(["a en against b", "b en against b"]);
    session.setView({ baseline: null });
    await vi.advanceTimersByTimeAsync(0);
    expect(session.state.findings.size).toBe(0);
  });

  it("draws the baseline first in a comparison, on an axis and in a metric that it has", () => {
    session.setView({ runs: ["a"], baseline: "b", x: "wall", chart: "compare", metric: "lr" });
    expect(session.drawn.runs.map((r) => r.run)).toEqual(["b", "a"]);
    expect(session.query).toMatchObject({ runs: ["b", "a"], roles: ["loss"], x: "step" });
    session.setView({ chart: "overlay" });
    expect(session.drawn.runs.map((r) => r.run)).toEqual(["a"]);
    session.setView({ baseline: "gone", chart: "compare" });
    expect(session.baseline).toBeNull();
  });

  it("asks only for what has grown when it looks by itself", async () => {
    session.setView({ runs: ["a", "b"] });
    server.asked.at(-1)!.answer(
      decodeSeries(
        encode([
          { run: "a", role: "loss", x: [1], last: [2] },
          { run: "b", role: "loss", x: [1], last: [3] },
        ]),
      ),
    );
    await vi.advanceTimersByTimeAsync(0);
    const before = server.asked.length;
    void session.reload("grown");
    await vi.advanceTimersByTimeAsync(0);
    expect(server.asked.length).toBe(before);
    server.list = [server.list[0]!, { ...server.list[1]!, last_wall_time: 2 }];
    void session.reload("grown");
    await vi.advanceTimersByTimeAsync(0);
    expect(server.asked.slice(before).map((a) => a.query.runs)).toEqual([["b"]]);
    server.asked.at(-1)!.answer(decodeSeries(encode([{ run: "b", role: "loss", x: [1, 2], last: [3, 4] }])));
    await vi.advanceTimersByTimeAsync(0);
    expect(session.state.frame!.segments.map((s) => [s.run, s.n])).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
    expect(session.state.loading).toBe(false);
  });
});
