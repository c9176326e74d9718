import { useEffect, useRef } from "preact/hooks";
import { text } from "../text";

/** Keys and gestures. */
export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-labelledby="help-title"
      data-testid="help-dialog"
      onClose={onClose}
      onClick={(e) => {
        if (e.target === dialog.current) dialog.current?.close(); // beside it
      }}
      onKeyDown={(e) => e.stopPropagation()}
    >
      <div class="help-head">
        <h2 id="help-title">{text.help.title}</h2>
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          {text.help.close}
        </button>
      </div>
      <dl>
        {[...text.help.keys, ...text.help.mouse].map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
