import { describe, expect, it } from "vitest";
import { ApiError, createApi, routesBase } from "../src/api";
import { encode } from "./thb1";

const BASE = new URL("http://host/pre/experiment/X/data/plugin/training_health/");
const QUERY = {
  runs: ["a"],
  roles: ["loss"],
  x: "step",
  from: null,
  to: null,
  buckets: 100,
  log_x: false,
  smoothing: 0,
} as const;
const never = new AbortController().signal;
const answering =
  (make: () => Response): typeof fetch =>
  async () =>
    make();

describe("the routes", () => {
  it("lie beside the module's own directory, under any prefix", () => {
    expect(routesBase("http://host/pre/experiment/X/data/plugin/training_health/static/index.js").href).toBe(
      BASE.href,
    );
  });

  it("are asked with relative URLs and the contract's body", async () => {
    const asked: [string, string | undefined][] = [];
    const fetcher = (async (url: URL, init: RequestInit) => {
      asked.push([url.href, init.body as string | undefined]);
      return new Response(encode([]));
    }) as unknown as typeof fetch;
    await createApi(BASE, fetcher).series(QUERY, never);
    expect(asked[0]![0]).toBe(`${BASE.href}series`);
    expect(JSON.parse(asked[0]![1]!)).toEqual({ ...QUERY, given: [], format: "binary" });
  });

  it("are all told what tags mean, but that which lists the tags", async () => {
    const asked: [string, string | undefined][] = [];
    const fetcher = (async (url: URL, init: RequestInit) => {
      asked.push([url.href.slice(BASE.href.length), init.body as string | undefined]);
      return new Response(JSON.stringify({ runs: [], tags: [], findings: [] }));
    }) as unknown as typeof fetch;
    const api = createApi(BASE, fetcher, () => ({ "a&b/c": "loss", d: "lr" }));
    const compared = { ...QUERY, baseline: "a", run: "b", role: "loss", tolerance: 0, absolute: 0 } as const;
    await api.runs("en", never);
    await api.findings("a", null, "en", never);
    await api.compare({ ...compared, lang: "en" }, never);
    await api.layout(never);
    await api.tags(never);
    const given = ["loss:a&b/c", "lr:d"];
    const urls = [...asked.map(([url]) => url), api.exportUrl(["a"], "csv").slice(BASE.href.length)];
    expect(urls.map((url) => url.split("?")[0])).toEqual([
      "runs",
      "findings",
      "compare",
      "layout",
      "tags",
      "export",
    ]);
    for (const url of urls.filter((url) => url !== "tags")) {
      expect(new URLSearchParams(url.split("?")[1]).getAll("given")).toEqual(given);
    }
    await api.series(QUERY, never).catch(() => {});
    expect(JSON.parse(asked.at(-1)![1]!).given).toEqual(given);
  });
});

describe("errors", () => {
  const failing = (make: () => Response) => createApi(BASE, answering(make)).series(QUERY, never);

  it("carry the server's sentence and hint", async () => {
    const error = await failing(() =>
      Response.json({ error: "Unknown run.", hint: "Reload." }, { status: 400 }),
    ).catch((e) => e);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ message: "Unknown run.", hint: "Reload.", passing: false });
  });

  it("of an HTML 500 are no HTML", async () => {
    const error = await failing(() => new Response("<html>Traceback", { status: 500 })).catch((e) => e);
    expect(error).toMatchObject({ message: "TensorBoard answered with HTTP 500.", passing: true });
  });

  it("of a server that is gone can be retried", async () => {
    const gone = (async () => {
      throw new TypeError("Failed to fetch");
    }) as typeof fetch;
    await expect(createApi(BASE, gone).runs("en", never)).rejects.toMatchObject({ passing: true });
  });

  it("of an answer cut off on its way are readable", async () => {
    const error = await failing(() => new Response(encode([]).slice(0, 9))).catch((e) => e);
    expect(error.message).toContain("cannot be read");
  });
});

it("a run without its optional fields is no reason to lose the list", async () => {
  const api = createApi(
    BASE,
    answering(() => Response.json({ runs: [{ run: "a" }] })),
  );
  const answer = await api.runs("en", never);
  expect(answer.runs[0]).toMatchObject({
    run: "a",
    notes: [],
    notes_of_findings: 0,
    missing: [],
    axes: ["step"],
    roles: {},
    restarts: [],
  });
  expect(answer.without_metrics).toEqual([]);
});
