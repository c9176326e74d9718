/**
 * What a hand does on a plot: drag to zoom x, with Ctrl, Alt or Cmd to zoom y, with Shift to move along x; wheel
 * sideways to move, with Ctrl (or two fingers apart) to zoom; click to keep the cursor where it is; double click to
 * see everything again.
 * Positions are fractions of the plot, from its upper left corner.
 */

export interface PlotBox {
  /** CSS px, in the window. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Stretch {
  readonly from: number;
  readonly to: number;
}

export interface GestureEvents {
  /** Null while there is no plot. */
  box(): PlotBox | null;
  /** The pointer is over the plot, at rest as regards gestures; null when it left. */
  point(at: { readonly x: number; readonly y: number } | null): void;
  /** A stretch is being marked; null when the marking ended. `y` where it was begun. */
  mark(axis: "x" | "y", stretch: Stretch | null, begin: number): void;
  marked(axis: "x" | "y", stretch: Stretch, begin: number): void;
  /** The picture follows the hand: what it now shows, as a stretch of what it showed when that began. */
  move(stretch: Stretch): void;
  moved(stretch: Stretch): void;
  /** Pressed and let go at one place. */
  click(at: { readonly x: number; readonly y: number }): void;
  reset(): void;
}

/** CSS px that a press may move and still be a click. */
const STILL = 4;
const WHEEL_REST_MS = 160;
const WHEEL_SPEED = 0.0022;
/** Closer than this a wheel does not go at once. */
const NARROWEST = 1e-3;

export class Gestures {
  private end: (() => void) | null = null;
  private wheeled: Stretch | null = null;
  private rest = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly events: GestureEvents,
  ) {
    host.addEventListener("pointerdown", this.down);
    host.addEventListener("pointermove", this.hover);
    host.addEventListener("pointerleave", this.leave);
    host.addEventListener("dblclick", this.double);
    host.addEventListener("wheel", this.wheel, { passive: false });
  }

  destroy(): void {
    this.end?.();
    window.clearTimeout(this.rest);
    this.host.removeEventListener("pointerdown", this.down);
    this.host.removeEventListener("pointermove", this.hover);
    this.host.removeEventListener("pointerleave", this.leave);
    this.host.removeEventListener("dblclick", this.double);
    this.host.removeEventListener("wheel", this.wheel);
  }

  private within(e: MouseEvent): { x: number; y: number; box: PlotBox } | null {
    const box = this.events.box();
    if (!box || box.width <= 0 || box.height <= 0) return null;
    return { x: (e.clientX - box.left) / box.width, y: (e.clientY - box.top) / box.height, box };
  }

  private readonly inside = (e: MouseEvent) => {
    const at = this.within(e);
    return at && at.x >= 0 && at.x <= 1 && at.y >= 0 && at.y <= 1 ? at : null;
  };

  private readonly hover = (e: PointerEvent): void => {
    if (!this.end && !this.wheeled) this.events.point(this.inside(e));
  };

  private readonly leave = (): void => {
    if (!this.end && !this.wheeled) this.events.point(null);
  };

  private readonly double = (e: MouseEvent): void => {
    if (this.inside(e)) this.events.reset();
  };

  private readonly down = (e: PointerEvent): void => {
    const begin = e.button === 0 && !this.end ? this.inside(e) : null;
    if (!begin) return;
    const { box } = begin;
    const how = e.shiftKey ? "move" : e.ctrlKey || e.altKey || e.metaKey ? "y" : "x";
    let dragged: Stretch | null = null;
    const stretchTo = (at: PointerEvent): Stretch => {
      const x = clamped((at.clientX - box.left) / box.width);
      const y = clamped((at.clientY - box.top) / box.height);
      if (how === "move") {
        const by = (e.clientX - at.clientX) / box.width;
        return { from: by, to: 1 + by };
      }
      const [a, b] = how === "x" ? [begin.x, x] : [begin.y, y];
      return { from: Math.min(a, b), to: Math.max(a, b) };
    };
    const follow = (at: PointerEvent): void => {
      const px = how === "y" ? at.clientY - e.clientY : at.clientX - e.clientX;
      if (!dragged && Math.abs(px) < STILL) return;
      if (!dragged) this.events.point(null);
      dragged = stretchTo(at);
      if (how === "move") this.events.move(dragged);
      else this.events.mark(how, dragged, begin.y);
    };
    const end = (done: boolean): void => {
      document.removeEventListener("pointermove", follow);
      document.removeEventListener("pointerup", up);
      document.removeEventListener("pointercancel", cancel);
      document.removeEventListener("keydown", key, true);
      this.end = null;
      if (!dragged) {
        if (done) this.events.click(begin);
        return;
      }
      if (how === "move") {
        // A gesture given up leads back to where it began.
        this.events.moved(done ? dragged : { from: 0, to: 1 });
        return;
      }
      this.events.mark(how, null, begin.y);
      const long = (dragged.to - dragged.from) * (how === "x" ? box.width : box.height) >= STILL;
      if (done && long) this.events.marked(how, dragged, begin.y);
    };
    const up = () => end(true);
    const cancel = () => end(false);
    const key = (pressed: KeyboardEvent) => {
      if (pressed.key !== "Escape") return;
      pressed.stopPropagation();
      end(false);
    };
    document.addEventListener("pointermove", follow);
    document.addEventListener("pointerup", up);
    document.addEventListener("pointercancel", cancel);
    document.addEventListener("keydown", key, true);
    this.end = () => end(false);
  };

  private readonly wheel = (e: WheelEvent): void => {
    const at = this.inside(e);
    if (!at || this.end) return;
    const zooms = e.ctrlKey || e.metaKey;
    const sideways = e.shiftKey ? e.deltaX || e.deltaY : e.deltaX;
    // Up and down alone scrolls, as everywhere.
    if (!zooms && !(Math.abs(sideways) > Math.abs(e.shiftKey ? 0 : e.deltaY))) return;
    e.preventDefault();
    const { from, to } = this.wheeled ?? { from: 0, to: 1 };
    const span = to - from;
    const unit = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (zooms) {
      const factor = Math.exp(Math.max(-200, Math.min(200, e.deltaY * unit)) * WHEEL_SPEED);
      const here = from + at.x * span;
      const width = Math.max(NARROWEST, span * factor);
      this.wheeled = { from: here - at.x * width, to: here + (1 - at.x) * width };
    } else {
      const by = ((sideways * unit) / at.box.width) * span;
      this.wheeled = { from: from + by, to: to + by };
    }
    this.events.point(null);
    this.events.move(this.wheeled);
    window.clearTimeout(this.rest);
    this.rest = window.setTimeout(() => {
      const done = this.wheeled;
      this.wheeled = null;
      if (done) this.events.moved(done);
    }, WHEEL_REST_MS);
  };
}

const clamped = (v: number): number => Math.max(0, Math.min(1, v));
