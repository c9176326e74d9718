import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Chart, type ChartLayout, type CursorAt } from "../chart/chart";
import type { ChartGroup } from "../chart/group";
import type { Scene } from "../chart/scene";
import type { Session } from "../session";

export interface Size {
  readonly width: number;
  readonly height: number;
}

interface Props {
  session: Session;
  scene: Scene;
  group: ChartGroup;
  label: string;
  onLayout: (layout: ChartLayout) => void;
  onCursor: (cursor: CursorAt | null) => void;
  onSize?: (size: Size) => void;
}

/** A chart in the page: as large as its place, in step with its group, its gestures led to the session. */
export function ChartHost({ session, scene, group, label, ...on }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | null>(null);
  const handlers = useRef(on);
  handlers.current = on;

  useLayoutEffect(() => {
    const el = host.current!;
    const made: Chart = new Chart(el, {
      onZoom: ({ from, to }) => session.setView({ from, to }),
      onRange: (role, range) => session.setView({ ranges: { ...session.state.view.ranges, [role]: range } }),
      onReset: () => session.showAll(),
      onLayout: (layout) => handlers.current.onLayout(layout),
      onCursor: (cursor) => {
        group.point(cursor?.x ?? null, made);
        if (cursor) session.pointed.patch({ x: cursor.x });
        handlers.current.onCursor(cursor);
      },
      pinned: () => session.pointed.state.pinned,
      onPin: (pinned) => session.pointed.patch({ pinned }),
      onMark: (stretch) => group.mark(stretch),
      onMove: (window) => group.preview(window),
    });
    chart.current = made;
    group.add(made);
    session.charts.add(made);
    const observer = new ResizeObserver(() => {
      const size = { width: el.clientWidth, height: el.clientHeight };
      handlers.current.onSize?.(size);
      made.resize(size.width, size.height);
    });
    observer.observe(el);
    const sight = new IntersectionObserver(([entry]) => made.inSight(entry!.isIntersecting), {
      rootMargin: "120px",
    });
    sight.observe(el);
    return () => {
      observer.disconnect();
      sight.disconnect();
      group.remove(made);
      session.charts.delete(made);
      session.pointed.patch({ pinned: false });
      made.destroy();
    };
  }, [group]);

  // In the same turn as the page says that it is ready: so it never says so of an older picture.
  useLayoutEffect(() => chart.current?.show(scene), [scene]);

  const onKeyDown = (e: KeyboardEvent) => {
    const far = e.shiftKey ? 10 : 1;
    if (e.key === "ArrowLeft") chart.current?.stepCursor(-far);
    else if (e.key === "ArrowRight") chart.current?.stepCursor(far);
    else {
      const kept = session.pointed.state.pinned;
      if (e.key === "Escape") chart.current?.hideCursor();
      // On its way up this key also resets the zoom; a cursor that was kept is all that it lets go of.
      if (e.key === "Escape" && kept) e.stopPropagation();
      return;
    }
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div
      class="plot"
      ref={host}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move the cursor in it
      tabIndex={0}
      role="img"
      aria-label={label}
      onKeyDown={onKeyDown}
    />
  );
}

/** Lights the run under the pointer, here and in the list, once the pointer rests on it. */
export function useLight(session: Session, scene: Scene, group: ChartGroup): (run: string | null) => void {
  const timer = useRef(0);
  const { hovered, selectedFinding } = session.state;
  const lit = hovered ?? selectedFinding?.run ?? null;
  useEffect(() => group.light(lit), [group, lit]);
  return (run) => {
    window.clearTimeout(timer.current);
    if (scene.runs.length < 2 && run !== null) return;
    timer.current = window.setTimeout(() => {
      if (session.state.hovered !== run) session.patch({ hovered: run });
    }, 40);
  };
}

export function useSize(): [Size, (size: Size) => void] {
  return useState<Size>({ width: 0, height: 0 });
}
