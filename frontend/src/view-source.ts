/** Where a view comes from and where it is kept: the address, this browser tab, and the last visit. */
import type { Address } from "./address";
import { coloursFromLink, type LinkContext, viewFromLink, viewToLink } from "./link";
import { DEFAULT_VIEW, rememberView, restoreView, type View, viewOfThisTab } from "./state";

export class ViewSource {
  constructor(private readonly address: Address) {}

  /** As this browser tab had it before it was reloaded; else what the address says, else as it was at the last visit. */
  first(logdir: string, runs: readonly string[]): View {
    const before = this.address.reloaded ? viewOfThisTab(logdir) : {};
    if (Object.keys(before).length > 0) return { ...DEFAULT_VIEW, ...before };
    return this.said(restoreView(logdir), runs);
  }

  /**
   * The address says all of a view that is not as usual; where it says nothing the last one is taken up again. Habits
   * of whoever looks, and what they said of tags, stay unless it says otherwise.
   */
  said(remembered: Partial<View>, runs: readonly string[]): View {
    const said = this.address.read();
    if (said.size === 0) return { ...DEFAULT_VIEW, ...remembered };
    const { theme, every, given } = { ...DEFAULT_VIEW, ...remembered };
    return { ...DEFAULT_VIEW, theme, every, given, ...viewFromLink(said, runs) };
  }

  /** Colours by run, with those that the address gives. */
  colours(own: ReadonlyMap<string, number>, runs: readonly string[]): ReadonlyMap<string, number> {
    return new Map([...own, ...coloursFromLink(this.address.read(), runs)]);
  }

  /** In the browser, and soon in the address; the context is asked for then. */
  keep(logdir: string | undefined, view: View, linked: () => readonly [View, LinkContext]): void {
    if (logdir !== undefined) rememberView(logdir, view);
    this.address.write(() => viewToLink(...linked()));
  }

  link(view: View, context: LinkContext): string {
    return this.address.link(viewToLink(view, context));
  }
}
