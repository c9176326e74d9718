/** What a plan is made of, for tests that change some of it. */
import type { PlanInput } from "../src/chart/plan";

export function input(change: Partial<PlanInput>): PlanInput {
  return {
    segments: [],
    roles: ["loss"],
    layout: "lanes",
    x: "step",
    logX: false,
    zoom: null,
    loaded: null,
    y: "full",
    scales: {},
    ranges: {},
    totalSteps: null,
    width: 1000,
    height: 600,
    labelRoom: 100,
    ...change,
  };
}
