/**
 * Where the state of the tab stands in an address: among the keys `p.training_health.…` of the hash of
 * TensorBoard's own page, which keeps them; in the frame's own hash where there is no such page.
 */
const PLUGIN = "training_health";
const PREFIX = `p.${PLUGIN}.`;
const SETTLE_MS = 300; // browsers refuse more than some changes a second

export class Address {
  private readonly page: Window;
  private readonly hosted: boolean;
  private pending: (() => URLSearchParams) | null = null;
  private timer = 0;
  /** What stood there when it was last looked at or written. */
  private known = "";

  constructor(frame: Window = window) {
    const host = hostOf(frame);
    this.hosted = host !== null;
    this.page = host ?? frame;
    frame.addEventListener?.("pagehide", () => this.flush());
  }

  /** The same page once more: what this browser tab remembers is newer than its address may be. */
  get reloaded(): boolean {
    const [entry] = this.page.performance?.getEntriesByType("navigation") ?? [];
    return (entry as PerformanceNavigationTiming | undefined)?.type === "reload";
  }

  read(): URLSearchParams {
    const said = new URLSearchParams();
    for (const [key, value] of entries(this.page.location.hash)) {
      if (!this.hosted) said.set(key, value);
      else if (key.startsWith(PREFIX)) said.set(key.slice(PREFIX.length), value);
    }
    return said;
  }

  /** Soon, and only once for many changes in a row. */
  write(params: () => URLSearchParams): void {
    this.pending = params;
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.flush(), SETTLE_MS);
  }

  private flush(): void {
    window.clearTimeout(this.timer);
    const params = this.pending?.();
    this.pending = null;
    if (!params) return;
    try {
      const { history, location } = this.page;
      // The whole path: a bare "#…" would resolve against the frame's <base>, which is another page.
      history.replaceState(history.state, "", location.pathname + location.search + this.hashWith(params));
      this.known = this.read().toString();
    } catch {
      // Too many changes, or a page that forbids them: a link can still be copied.
    }
  }

  link(params: URLSearchParams): string {
    const { origin, pathname, search } = this.page.location;
    return origin + pathname + search + this.hashWith(params);
  }

  /** The page's hash with this state in it, and nothing lost of what others keep there. */
  private hashWith(params: URLSearchParams): string {
    const own = [...params].map(([key, value]) => pair(this.hosted ? PREFIX + key : key, value));
    if (!this.hosted) return own.length > 0 ? `#${own.join("&")}` : "";
    const others = parts(this.page.location.hash).filter((part) => !decoded(part).startsWith(PREFIX));
    const tab = others.find((part) => !part.includes("="));
    const kept = others.filter((part) => part !== tab);
    return `#${[tab || PLUGIN, ...kept, ...own].join("&")}`;
  }

  /** Edited by hand, or gone back to: what the tab itself wrote does not count. */
  onChange(tell: () => void): void {
    this.known = this.read().toString();
    this.page.addEventListener("hashchange", () => {
      const [tab] = parts(this.page.location.hash);
      const here = !this.hosted || tab === undefined || tab.includes("=") || tab === PLUGIN;
      const said = this.read().toString();
      if (!here || said === this.known) return;
      this.known = said;
      tell();
    });
  }
}

/** TensorBoard's page, where this frame may look at it. */
function hostOf(frame: Window): Window | null {
  try {
    const { parent } = frame;
    return parent && parent !== frame && typeof parent.location.hash === "string" ? parent : null;
  } catch {
    return null;
  }
}

const parts = (hash: string): string[] => hash.replace(/^#/, "").split("&").filter(Boolean);

function entries(hash: string): [string, string][] {
  return parts(hash).flatMap((part) => {
    const at = part.indexOf("=");
    return at < 0 ? [] : [[decoded(part.slice(0, at)), decoded(part.slice(at + 1))]];
  });
}

const pair = (key: string, value: string): string =>
  `${encodeURIComponent(key)}=${encodeURIComponent(value)}`;

/** A hand-edited "%" is no reason to fail. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part.replaceAll("+", " "));
  } catch {
    return part;
  }
}
