/** Handing things to the user: the clipboard, and files. */

/** False where the browser forbids it. */
export async function copyText(what: string): Promise<boolean> {
  try {
    // Needs a secure context; TensorBoard is often reached over plain http on another host.
    await navigator.clipboard.writeText(what);
    return true;
  } catch {
    const focused = document.activeElement;
    const area = document.createElement("textarea");
    area.value = what;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // Not at once: the browser may still be asking where to put it.
  window.setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const saveText = (name: string, type: string, content: string): void =>
  saveFile(name, new Blob([content], { type: `${type};charset=utf-8` }));

/** Lets the browser fetch and save what a server offers as a file, while it is being sent. */
export function visit(url: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = "";
  document.body.append(link);
  link.click();
  link.remove();
}
