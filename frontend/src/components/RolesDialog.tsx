import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../session";
import { text } from "../text";
import { RolePicker } from "./RolePicker";

/** Where runs are shown already: to give roles to more of their tags, or to take them away. */
export function RolesDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class="help roles-dialog"
      aria-labelledby="roles-title"
      data-testid="roles-dialog"
      onClose={onClose}
      onClick={(e) => {
        if (e.target === dialog.current) dialog.current?.close(); // beside it
      }}
      onKeyDown={(e) => e.stopPropagation()}
    >
      <div class="help-head">
        <h2 id="roles-title">{text.roles.dialogTitle}</h2>
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          {text.roles.close}
        </button>
      </div>
      <p>{text.roles.what}</p>
      <RolePicker session={session} onDone={() => dialog.current?.close()} />
    </dialog>
  );
}
