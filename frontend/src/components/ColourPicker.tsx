import { useEffect, useRef } from "preact/hooks";
import { homeSlot, SLOTS, slotColour } from "../palette";
import type { Session, SessionState } from "../session";
import { text } from "../text";
import type { ThemeName } from "../theme";
import { px } from "./px";

interface Props {
  session: Session;
  state: SessionState;
  theme: ThemeName;
  run: string;
  /** Of the button that opened it. */
  at: DOMRect;
  onClose: () => void;
}

const SIZE = { width: 166, height: 108 };

/** The palette's colours, told apart by most eyes; those that other drawn runs have are marked. */
export function ColourPicker({ session, state, theme, run, at, onClose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const opener = useRef(document.activeElement);
  useEffect(() => {
    box.current?.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
    const outside = (e: PointerEvent) => {
      if (box.current?.contains(e.target as Node)) return;
      onClose();
      e.stopPropagation(); // to a chart it would be a click
    };
    document.addEventListener("pointerdown", outside, true);
    return () => {
      document.removeEventListener("pointerdown", outside, true);
      if (opener.current instanceof HTMLElement) opener.current.focus({ preventScroll: true });
    };
  }, []);
  const own = state.slots.get(run) ?? homeSlot(run);
  const taken = new Set(
    session.drawn.runs.filter((r) => r.run !== run).map((r) => state.slots.get(r.run) ?? homeSlot(r.run)),
  );
  const choose = (slot: number | null) => {
    session.setColour(run, slot);
    onClose();
  };
  const top = Math.min(at.bottom + 4, window.innerHeight - SIZE.height - 8);
  const left = Math.max(8, Math.min(at.left - SIZE.width / 2, window.innerWidth - SIZE.width - 8));
  return (
    <div
      ref={box}
      class="picker"
      role="dialog"
      aria-label={text.runs.colour(run)}
      data-testid="colour-picker"
      style={{ top: px(top), left: px(left), width: px(SIZE.width) }}
      onKeyDown={(e) => {
        if (e.key !== "Escape") return;
        e.stopPropagation();
        onClose();
      }}
    >
      <div class="picker-slots">
        {Array.from({ length: SLOTS }, (_, slot) => (
          <button
            key={slot}
            type="button"
            class={taken.has(slot) ? "slot taken" : "slot"}
            style={{ "--run": slotColour(slot, theme) }}
            aria-label={text.runs.colourSlot(slot + 1, taken.has(slot))}
            title={text.runs.colourSlot(slot + 1, taken.has(slot))}
            aria-pressed={slot === own}
            data-testid="colour-slot"
            data-slot={slot}
            onClick={() => choose(slot)}
          />
        ))}
      </div>
      <button type="button" class="link" data-testid="colour-reset" onClick={() => choose(null)}>
        {text.runs.ownColour}
      </button>
    </div>
  );
}
