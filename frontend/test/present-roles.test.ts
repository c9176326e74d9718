import { expect, test } from "vitest";
import { presentRoles } from "../src/chart/plan";
import { OVERLAY_ROLES } from "../src/roles";

test("a role is there in a run that was listed without being counted", () => {
  const runs = [{ roles: { loss: { points: null }, lr: { points: 0 }, grad_norm: { points: 3 } } }];
  expect(presentRoles(runs, OVERLAY_ROLES)).toEqual(["loss", "grad_norm"]);
});
