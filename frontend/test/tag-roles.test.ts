import { describe, expect, it } from "vitest";
import type { TagInfo } from "../src/api";
import { type Given, givenPairs, roleGiven } from "../src/roles";
import { candidates, suggestion } from "../src/tag-roles";

const tag = (name: string, suggested: TagInfo["suggested"] = null): TagInfo => ({
  tag: name,
  runs: 1,
  points: 10,
  last_step: 10,
  last_value: 1,
  suggested,
});

const TAGS = [tag("b"), tag("z/step_size", "lr"), tag("a"), tag("objective", "loss")];

describe("the tags to choose from", () => {
  it("begin with those whose names speak of a role", () => {
    expect(candidates(TAGS, {}).map((row) => row.tag)).toEqual(["objective", "z/step_size", "a", "b"]);
  });

  it("begin with what the user said, also of tags that no run has", () => {
    const rows = candidates(TAGS, { gone: "accuracy", b: "loss" });
    expect(rows.map((row) => row.tag)).toEqual(["b", "gone", "objective", "z/step_size", "a"]);
    expect(rows[1]).toEqual({ tag: "gone" });
  });

  it("are offered with what their names speak of until the user says anything", () => {
    expect(suggestion(TAGS, {})).toEqual({ objective: "loss", "z/step_size": "lr" });
    expect(suggestion(TAGS, { a: "kl" })).toEqual({ a: "kl" });
    // What a newer server suggests may be nothing that is known here.
    expect(suggestion([tag("x", "moon" as never)], {})).toEqual({});
  });

  it("may be called like anything", () => {
    const given: Given = { ["__proto__"]: "loss", constructor: "lr" } as Given;
    expect(roleGiven({}, "constructor")).toBeNull();
    expect(roleGiven(given, "constructor")).toBe("lr");
    expect(roleGiven(given, "__proto__")).toBe("loss");
    expect(givenPairs(given)).toEqual(["loss:__proto__", "lr:constructor"]);
  });
});
