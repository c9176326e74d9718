import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "../hand-over";
import { text } from "../text";

interface Props {
  what: () => string;
  copied: string;
  title?: string;
  testid: string;
  /** Where what it shows is no word. */
  label?: string;
  class?: string;
  disabled?: boolean;
  children: ComponentChildren;
}

const SAID_MS = 1500;

/** Copies, and says for a moment that it did (to a screen reader as well). */
export function CopyButton({
  what,
  copied,
  title,
  label,
  testid,
  class: kind = "button",
  disabled,
  children,
}: Props) {
  const [said, setSaid] = useState("");
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const copy = async () => {
    setSaid((await copyText(what())) ? copied : text.copyFailed);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setSaid(""), SAID_MS);
  };
  return (
    <button
      type="button"
      class={kind}
      data-testid={testid}
      title={title}
      disabled={disabled}
      aria-label={label}
      onClick={() => void copy()}
    >
      <span aria-live="polite">{said || children}</span>
    </button>
  );
}
