import type { Clipped } from "../chart/extent";
import { describeNonFinite } from "../chart/marks";
import { leftOfLog, type Plan } from "../chart/plan";
import type { Scene } from "../chart/scene";
import type { MissingSeries } from "../decode";
import { remarks } from "../findings";
import { formatValue } from "../format";
import { sayable } from "../names";
import { type ChartRole, OVERLAY_ROLES } from "../roles";
import { text } from "../text";

interface Note {
  readonly key: string;
  readonly testid: string;
  readonly role?: ChartRole;
  readonly sentence: string;
}

/** Beside the findings: what the chart cannot show and why, what the server remarked. */
export function Notes({
  scene,
  plan,
  missing,
  without,
}: {
  scene: Scene;
  plan: Plan | null;
  missing: readonly MissingSeries[];
  /** Chosen runs that have nothing to draw here. */
  without: readonly string[];
}) {
  const notes = collectNotes(scene, plan, missing);
  if (without.length > 0) {
    const names = text.missing.some(without.map(sayable));
    const sentence =
      scene.layout === "panel" ? text.missing.nothingToDraw(names) : text.missing.notInOverlay(names);
    notes.push({ key: "without", testid: "undrawn-note", sentence });
  }
  if (notes.length === 0) return null;
  return (
    <section class="notes" data-testid="notes" aria-label={text.missing.heading}>
      {notes.map((note) => (
        <p key={note.key} data-testid={note.testid} data-role={note.role}>
          {note.sentence}
        </p>
      ))}
    </section>
  );
}

function collectNotes(scene: Scene, plan: Plan | null, missing: readonly MissingSeries[]): Note[] {
  const notes: Note[] = [];
  const { runs } = scene;
  for (const run of runs) {
    remarks(run.info).forEach((note, i) => {
      notes.push({
        key: `note ${run.run} ${i}`,
        testid: "run-note",
        sentence: runs.length > 1 ? text.missing.run(sayable(run.run), note) : note,
      });
    });
  }
  for (const zone of plan?.zones ?? []) {
    // Lanes say it in their titles.
    const clipped = plan?.layout === "merged" && zone.clipped && clippedSentence(zone.clipped, zone.role);
    const parts = [clipped, zone.nonPositive > 0 && text.chart.nonPositive(zone.nonPositive)].filter(Boolean);
    if (parts.length) {
      notes.push({
        key: `clip ${zone.role}`,
        testid: "clip-note",
        role: zone.role,
        sentence: `${text.axisTitle[zone.role]}: ${parts.join("; ")}.`,
      });
    }
  }
  for (const run of runs) {
    const own = scene.segments.filter((s) => s.run === run.run && s.role === "loss" && s.n > 0);
    const finite = own.some((s) => s.last.some((v) => v === v));
    if (own.length && !finite && run.info.notes.length === 0) {
      notes.push({
        key: `nan ${run.run}`,
        testid: "nan-note",
        role: "loss",
        sentence: text.missing.run(
          sayable(run.run),
          `${text.chart.allNonFinite(text.role("loss"), describeNonFinite(own))}.`,
        ),
      });
    }
  }
  const left = plan?.x.log ? leftOfLog(scene.segments, scene.roles) : 0;
  if (left > 0) notes.push({ key: "log x", testid: "log-x-note", sentence: text.chart.leftOfLog(left) });
  for (const role of OVERLAY_ROLES) {
    const lacking = runs.filter((r) => r.info.missing.some((m) => m.role === role));
    const nowhere = !scene.roles.includes(role);
    // A run without a loss scale beside one with it is no lack: only mixed precision has one.
    if (!nowhere && (role === "loss_scale" || lacking.length === 0)) continue;
    const hint = lacking[0]?.info.missing.find((m) => m.role === role)?.hint ?? "";
    notes.push({
      key: `missing ${role}`,
      testid: "missing-hint",
      role,
      sentence: text.missing.role(
        text.role(role),
        nowhere ? text.missing.all(runs.length) : text.missing.some(lacking.map((r) => sayable(r.run))),
        hint,
      ),
    });
  }
  for (const run of runs) {
    const drawn = scene.segments.some((s) => s.run === run.run);
    const reason = missing.find((m) => m.run === run.run)?.reason;
    if (!drawn && reason) {
      notes.push({
        key: `absent ${run.run}`,
        testid: "absent-note",
        sentence: text.missing.run(sayable(run.run), reason),
      });
    }
  }
  return notes;
}

export function clippedSentence(c: Clipped, role: ChartRole): string {
  return [
    c.above ? text.chart.clippedAbove(c.exact, c.above, formatValue(c.max, role)) : "",
    c.below ? text.chart.clippedBelow(c.exact, c.below, formatValue(c.min, role)) : "",
  ]
    .filter(Boolean)
    .join(", ");
}
