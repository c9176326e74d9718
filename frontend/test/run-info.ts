import type { RunInfo } from "../src/api";

/** A run as the server lists it, with nothing special about it. */
export const runInfo = (run: string, more: Partial<RunInfo> = {}): RunInfo => ({
  run,
  source: "manifest",
  status: "ended",
  last_wall_time: 1,
  verdict: "ok",
  total_steps: null,
  findings: null,
  seconds_per_step: null,
  notes: [],
  notes_of_findings: 0,
  missing: [],
  axes: ["step"],
  restarts: [],
  events: [],
  ranks: [],
  roles: { loss: SERIES },
  ...more,
});

export const SERIES = { tag: "", unit: "", points: 10, first_step: 0, last_step: 10, last_value: 1 };
