/** From the session's state to what is asked of the server, and from its answers to what the chart shows. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CompareQuery, Comparison, Finding } from "../api";
import { type Comparing, derivedSegments, type Parted, usualLimit } from "../chart/compare";
import type { Scene } from "../chart/scene";
import { type Compared, Comparisons, isAbout, keyOf, type Wanted } from "../compare";
import type { Segment } from "../decode";
import { versionOf } from "../findings";
import { DERIVED_ROLES, ROLE_STYLE } from "../roles";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { useScene } from "./scene";

type ByRun = ReadonlyMap<string, Compared>;
const NOTHING: ByRun = new Map();

/** A slider sends dozens of values on its way. */
const SETTLE_MS = 100;

/** What is known of the drawn runs against the baseline, and whether more is on its way. */
export function useComparisons(
  session: Session,
  state: SessionState,
): { readonly compared: ByRun; readonly pending: boolean } {
  const [told, setTold] = useState<ByRun>(NOTHING);
  const feed = useMemo(() => new Comparisons(session.api, setTold), [session]);
  useEffect(() => () => feed.stop(), [feed]);
  const wanted = wantedOf(session, state);
  const keys = wanted.map(keyOf);
  const before = useRef(false);
  useEffect(() => {
    const ask = () => feed.want(wanted);
    if (!before.current) {
      before.current = true;
      ask();
      return;
    }
    const timer = window.setTimeout(ask, SETTLE_MS);
    return () => window.clearTimeout(timer);
  }, [feed, keys.join("\n"), state.answer]);
  // Of another window or tolerance it is better than nothing; of another metric it is wrong.
  const compared = new Map(
    wanted.flatMap(({ query }) => {
      const known = told.get(query.run);
      return known && isAbout(known, query) ? [[query.run, known] as const] : [];
    }),
  );
  return { compared, pending: wanted.some(({ query }, i) => told.get(query.run)?.key !== keys[i]) };
}

function wantedOf(session: Session, state: SessionState): Wanted[] {
  const { baseline, query } = session;
  if (baseline === null || !query) return [];
  const reference = state.runs.get(baseline)!;
  const { from, to, buckets, smoothing, x } = query;
  return session.drawn.runs
    .filter((run) => run !== reference)
    .map((run): Wanted => {
      const asked: CompareQuery = {
        baseline,
        run: run.run,
        role: session.metric,
        x,
        tolerance: state.view.tolerance,
        absolute: state.view.absolute,
        from,
        to,
        buckets,
        smoothing: ROLE_STYLE[session.metric].smooth ? smoothing : 0,
        lang: state.language,
      };
      return { query: asked, version: `${versionOf(run)} ${versionOf(reference)}` };
    });
}

const NO_FINDINGS: ReadonlyMap<string, readonly Finding[]> = new Map();
const curves = new WeakMap<Comparison, readonly Segment[]>();

/** The compared curves above their difference and relative error. */
export function useComparedScene(
  session: Session,
  state: SessionState,
  theme: ThemeName,
  pending: boolean,
  compared: ByRun,
): Scene {
  const base = useScene(session, state, theme, pending);
  const { baseline, metric } = session;
  const { tolerance, absolute } = state.view;
  const answers = [...compared].flatMap(([run, { answer }]) => (answer ? [[run, answer] as const] : []));
  const told = answers.map(([, answer]) => idOf(answer)).join();
  // Kept while they are the same: what hangs on them need not be computed anew, and only a zoom moves the picture.
  const segments = useMemo(
    () => [
      ...base.segments.filter((s) => s.role === metric && s.current),
      ...answers.flatMap(([run, answer]) => segmentsOf(run, answer)),
    ],
    [base.segments, metric, told],
  );
  const comparing = useMemo((): Comparing => {
    // What is a constant times the baseline all along does not leave it.
    const parted = answers.flatMap(([run, { verdict, at }]): Parted[] =>
      verdict !== "differs" || at.parted === null ? [] : [{ run, x: at.parted }],
    );
    const limit = usualLimit({ tolerance, absolute }, base.segments, baseline ?? "", metric);
    return { baseline: baseline ?? "", role: metric, axis: base.x, tolerance, absolute, limit, parted };
  }, [baseline, metric, base.x, base.segments, tolerance, absolute, told]);
  return useMemo(
    () => ({
      ...base,
      layout: "lanes",
      roles: [metric, ...DERIVED_ROLES],
      segments,
      runs: base.runs.map((run) => (run.run === baseline ? { ...run, label: text.runs.baseline } : run)),
      totalSteps: null,
      // What is found in each run is what the other views are for.
      findings: NO_FINDINGS,
      comparing,
    }),
    [base, segments, comparing, state.language],
  );
}

function segmentsOf(run: string, answer: Comparison): readonly Segment[] {
  let known = curves.get(answer);
  if (!known) {
    known = derivedSegments(run, answer);
    curves.set(answer, known);
  }
  return known;
}

const ids = new WeakMap<Comparison, number>();
let last = 0;

/** Tells answers apart without looking into them. */
function idOf(answer: Comparison): number {
  let id = ids.get(answer);
  if (id === undefined) {
    id = ++last;
    ids.set(answer, id);
  }
  return id;
}
