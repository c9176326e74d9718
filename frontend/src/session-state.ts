/** The one state of the tab, and how it begins. */
import type { Finding, RunInfo, RunsAnswer } from "./api";
import type { Frame } from "./frames";
import type { Language } from "./language";
import type { Problem } from "./retry";
import { DEFAULT_VIEW, type View } from "./state";
import type { ThemeName } from "./theme";

export interface SessionState {
  readonly answer: RunsAnswer | null;
  readonly runs: ReadonlyMap<string, RunInfo>;
  readonly order: readonly string[];
  readonly view: View;
  readonly slots: ReadonlyMap<string, number>;
  /** Colours that the user gave. */
  readonly ownSlots: ReadonlyMap<string, number>;
  readonly frame: Frame | null;
  readonly loading: boolean;
  readonly refreshing: boolean;
  readonly problem: Problem | null;
  /** When the shown data came (ms). */
  readonly freshAt: number;
  readonly hovered: string | null;
  /** By run, as far as they are known. */
  readonly findings: ReadonlyMap<string, readonly Finding[]>;
  /** How many runs' findings are on their way, and why those of some did not come. */
  readonly checking: number;
  readonly unchecked: ReadonlyMap<string, string>;
  /** Its steps are lit in the chart. */
  readonly selectedFinding: Finding | null;
  /** The help dialog is open, or that in which tags are given roles. */
  readonly help: boolean;
  readonly picking: boolean;
  readonly language: Language;
  readonly hostTheme: ThemeName;
}

/** Where on the x axis the cursor was last, in whichever chart; its own store, as it follows the pointer. */
export interface Pointed {
  readonly x: number | null;
  /** A click keeps it there. */
  readonly pinned: boolean;
}

export const BEGINNING: SessionState = {
  answer: null,
  runs: new Map(),
  order: [],
  view: DEFAULT_VIEW,
  slots: new Map(),
  ownSlots: new Map(),
  frame: null,
  loading: true,
  refreshing: false,
  problem: null,
  freshAt: 0,
  hovered: null,
  findings: new Map(),
  checking: 0,
  unchecked: new Map(),
  selectedFinding: null,
  help: false,
  picking: false,
  language: "en",
  hostTheme: "light",
};
