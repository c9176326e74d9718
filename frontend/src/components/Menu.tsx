import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface MenuItem {
  readonly key: string;
  readonly label: string;
  /** Of the items under it, up to the next one that has a heading. */
  readonly heading?: string;
  /** For items of which one is chosen. */
  readonly checked?: boolean;
  readonly disabled?: boolean;
  readonly title?: string;
  readonly onChoose: () => void;
}

interface Props {
  label: string;
  /** Asked for when the menu is opened: what can be chosen may have changed since the button was drawn. */
  items: () => readonly MenuItem[];
  testid: string;
  class?: string;
  disabled?: boolean;
  children: ComponentChildren;
}

/** A button that opens a menu: arrow keys walk in it, Escape and a click elsewhere close it. */
export function Menu({ label, items, testid, class: kind = "button", disabled, children }: Props) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return;
    entries(box.current)[0]?.focus();
    const outside = (e: PointerEvent) => {
      if (box.current?.contains(e.target as Node)) return;
      setOpen(false);
      e.stopPropagation(); // to a chart it would be a click
    };
    document.addEventListener("pointerdown", outside, true);
    return () => document.removeEventListener("pointerdown", outside, true);
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (!open) return;
    const own = entries(box.current);
    const at = own.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: own.length - 1 }[e.key];
    if (to !== undefined) own[(to + own.length) % own.length]?.focus();
    else if (e.key === "Escape") close();
    else if (e.key === "Tab") setOpen(false);
    else return;
    if (e.key === "Tab") return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the menu inside
    <span class="menu" ref={box} onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        class={kind}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={label}
        title={label}
        disabled={disabled}
        data-testid={testid}
        onClick={() => setOpen(!open)}
      >
        {children}
      </button>
      {open && (
        <div class="menu-box" role="menu" aria-label={label}>
          {items().map((item) => (
            <MenuEntry key={item.key} item={item} testid={`${testid}-${item.key}`} onClose={close} />
          ))}
        </div>
      )}
    </span>
  );
}

function MenuEntry({ item, testid, onClose }: { item: MenuItem; testid: string; onClose: () => void }) {
  const radio = item.checked !== undefined;
  return (
    <>
      {item.heading && (
        <div class="menu-heading" role="presentation">
          {item.heading}
        </div>
      )}
      <button
        type="button"
        class="menu-item"
        {...(radio ? { role: "menuitemradio", "aria-checked": item.checked } : { role: "menuitem" })}
        disabled={item.disabled}
        title={item.title}
        tabIndex={-1}
        data-testid={testid}
        onClick={() => {
          onClose();
          item.onChoose();
        }}
      >
        {radio && <span aria-hidden="true">{item.checked ? "●" : "○"}</span>}
        {item.label}
      </button>
    </>
  );
}

const entries = (box: HTMLElement | null): HTMLElement[] => [
  ...(box?.querySelectorAll<HTMLElement>(".menu-item:enabled") ?? []),
];
