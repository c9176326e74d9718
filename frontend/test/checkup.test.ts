import { beforeEach, describe, expect, it } from "vitest";
import { ApiError, type Finding } from "../src/api";
import { type Checked, Checkup } from "../src/checkup";
import { runInfo, SERIES } from "./run-info";

const settle = () => new Promise((done) => setTimeout(done));
const grown = (run: string, to: number) =>
  runInfo(run, { last_wall_time: to, roles: { loss: { ...SERIES, last_step: to } } });

let asked: string[];
let fault: ApiError | null;
let checked: Checked;
let checkup: Checkup;

beforeEach(() => {
  asked = [];
  fault = null;
  checkup = new Checkup(
    {
      async findings(run, _baseline, language) {
        asked.push(`${run} ${language}`);
        if (fault) throw fault;
        return [{ run } as Finding];
      },
    },
    (next) => {
      checked = next;
    },
  );
});

describe("findings are fetched", () => {
  it("once a run, and again only when it grew", async () => {
    checkup.want([grown("a", 1), grown("b", 1)], "en");
    await settle();
    checkup.want([grown("a", 1), grown("b", 2)], "en");
    await settle();
    expect(asked).toEqual(["a en", "b en", "b en"]);
    expect(checked.checking).toBe(0);
    expect([...checked.findings.keys()]).toEqual(["a", "b"]);
  });

  it("again in another language, the old words staying until then", async () => {
    checkup.want([grown("a", 1)], "en");
    await settle();
    checkup.want([grown("a", 1)], "zh");
    expect(checked).toMatchObject({ checking: 1 });
    expect(checked.findings.has("a")).toBe(true);
    await settle();
    expect(asked).toEqual(["a en", "a zh"]);
  });

  it("not for a run that is no longer wanted", async () => {
    checkup.want([grown("a", 1), grown("b", 1), grown("c", 1), grown("d", 1)], "en");
    checkup.want([grown("a", 1)], "en");
    await settle();
    expect(asked).not.toContain("d en");
  });

  it("and a failure is said, kept to its run and tried again when asked to", async () => {
    fault = new ApiError("No.", "", true);
    checkup.want([grown("a", 1)], "en");
    await settle();
    expect(checked.unchecked.get("a")).toBe("No.");
    checkup.want([grown("a", 1)], "en");
    await settle();
    expect(asked.length).toBe(1);
    fault = null;
    checkup.retry();
    checkup.want([grown("a", 1)], "en");
    await settle();
    expect(checked.unchecked.size).toBe(0);
    expect(checked.findings.has("a")).toBe(true);
  });

  it("and forgotten where the server finds nothing any more", async () => {
    checkup.want([grown("a", 1)], "en");
    await settle();
    checkup.clear(["a"]);
    checkup.want([], "en");
    expect(checked.findings.has("a")).toBe(false);
  });
});
