import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  /** What it is called in ids and tests. */
  name: string;
  title: string;
  /** Label of the button that closes it. */
  close: string;
  /** How far what it shows has come, for tests. */
  state?: string;
  onClose: () => void;
  /** What stands below the title, made with a function that closes the dialog. */
  children: (close: () => void) => ComponentChildren;
}

/** A box over the page, with a title; Esc and a click beside it close it, too. */
export function Dialog({ name, title, close, state, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  // Closed, not only taken away: the focus goes back to where it was.
  const end = () => dialog.current?.close();
  return (
    <dialog
      ref={dialog}
      class={`dialog ${name}-dialog`}
      aria-labelledby={`${name}-title`}
      data-testid={`${name}-dialog`}
      data-state={state}
      onClose={onClose}
      onClick={(e) => {
        if (e.target === dialog.current) end(); // beside it
      }}
      onKeyDown={(e) => e.stopPropagation()}
    >
      <div class="dialog-head">
        <h2 id={`${name}-title`}>{title}</h2>
        <button type="button" class="button" onClick={end}>
          {close}
        </button>
      </div>
      {children(end)}
    </dialog>
  );
}
