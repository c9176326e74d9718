import type { Session } from "../session";
import { text } from "../text";
import { Dialog } from "./Dialog";
import { RolePicker } from "./RolePicker";

/** Where runs are shown already: to give roles to more of their tags, or to take them away. */
export function RolesDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  return (
    <Dialog name="roles" title={text.roles.dialogTitle} close={text.roles.close} onClose={onClose}>
      {(close) => (
        <>
          <p>{text.roles.what}</p>
          <RolePicker session={session} onDone={close} />
        </>
      )}
    </Dialog>
  );
}
