import { afterEach, describe, expect, it } from "vitest";
import { formatAge, formatDay, formatDuration } from "../src/format";
import { speak, TEXTS, text } from "../src/text";

function leaves(value: unknown, path = ""): [string, unknown][] {
  if (typeof value !== "object" || value === null) return [[path, value]];
  return Object.entries(value).flatMap(([key, of]) => leaves(of, `${path}.${key}`));
}

afterEach(() => speak("en"));

describe("the two languages", () => {
  it("have the same keys, none of them empty", () => {
    const en = new Map(leaves(TEXTS.en));
    const zh = new Map(leaves(TEXTS.zh));
    expect([...zh.keys()].sort()).toEqual([...en.keys()].sort());
    for (const [key, value] of [...en, ...zh]) {
      expect(typeof value === "function" || (value as string).trim() !== "", key).toBe(true);
      expect(typeof value, key).toBe(typeof en.get(key));
    }
  });

  it("differ, but for names and signs", () => {
    const same = leaves(TEXTS.en)
      .filter(([key, value]) => typeof value === "string" && value === new Map(leaves(TEXTS.zh)).get(key))
      .map(([key]) => key);
    expect(same).toEqual([
      ".x.label",
      ".help.keys.0.0",
      ".help.keys.1.0",
      ".help.keys.2.0",
      ".help.keys.3.0",
      ".help.keys.4.0",
      ".help.keys.5.0",
      ".chart.scales.log2",
      ".tooltip.notLogged",
    ]);
  });

  it("never translate a name", () => {
    expect(TEXTS.zh.missing.run("gpt_lr3e-4", "…")).toContain("gpt_lr3e-4");
    expect(TEXTS.zh.runs.toggle("<b>")).toContain("<b>");
  });

  it("have their own words for ages and days", () => {
    const day = new Date(2026, 10, 30).getTime() / 1000;
    expect([formatAge(42), formatDuration(11_400), formatDay(day)]).toEqual(["42 s", "3 h 10 min", "30 Nov"]);
    speak("zh");
    expect([formatAge(42), formatDuration(11_400), formatDay(day)]).toEqual([
      "42 秒",
      "3 小时 10 分钟",
      "11月30日",
    ]);
    expect(text.title).toBe("训练健康");
  });
});
