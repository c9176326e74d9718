import { text } from "../text";
import { Dialog } from "./Dialog";

/** Keys and gestures. */
export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog name="help" title={text.help.title} close={text.help.close} onClose={onClose}>
      {() => (
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
      )}
    </Dialog>
  );
}
