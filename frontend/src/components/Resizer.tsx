import { useRef, useState } from "preact/hooks";
import { keep, kept } from "../storage";
import { text } from "../text";

const KEY = "training_health.findings_height";

/** The head alone, and what leaves the chart its place. */
const LEAST = 38;
const CHART = 260;
const STEP = 24;

const most = (): number => Math.max(LEAST, window.innerHeight - CHART);
const within = (height: number): number => Math.round(Math.min(most(), Math.max(LEAST, height)));
const usual = (): number => (window.innerHeight < 700 ? 164 : 224);

/** The panel's height in px, as the user left it. */
export function useHeight(): [number, (height: number | null) => void] {
  const [height, setHeight] = useState<number | null>(() => {
    const before = kept(KEY);
    return typeof before === "number" && Number.isFinite(before) ? before : null;
  });
  const set = (next: number | null) => {
    const height = next === null ? null : within(next);
    setHeight(height);
    keep(KEY, height);
  };
  return [within(height ?? usual()), set];
}

/** The panel's upper edge: drag it, or move it with the arrow keys; a double-click gives the usual height. */
export function Resizer({ height, onHeight }: { height: number; onHeight: (height: number | null) => void }) {
  const grip = useRef<{ y: number; height: number } | null>(null);
  return (
    // biome-ignore lint/a11y/useSemanticElements: <hr> is a separator that cannot be moved
    <div
      class="resizer"
      role="separator"
      tabIndex={0}
      aria-orientation="horizontal"
      aria-label={text.findings.resize}
      aria-valuemin={LEAST}
      aria-valuemax={most()}
      aria-valuenow={height}
      data-testid="findings-resizer"
      onPointerDown={(e) => {
        e.currentTarget.setPointerCapture(e.pointerId);
        grip.current = { y: e.clientY, height };
      }}
      onPointerMove={(e) => {
        if (grip.current) onHeight(grip.current.height + grip.current.y - e.clientY);
      }}
      onPointerUp={() => {
        grip.current = null;
      }}
      onDblClick={() => onHeight(null)}
      onKeyDown={(e) => {
        const way = e.key === "ArrowUp" ? 1 : e.key === "ArrowDown" ? -1 : 0;
        if (way === 0) return;
        e.preventDefault();
        onHeight(height + way * STEP);
      }}
    />
  );
}
