/** Which language the tab speaks: the browser's, until the user switches; then that, for every log directory. */
import { keep, kept } from "./storage";

export const LANGUAGES = ["en", "zh"] as const;
export type Language = (typeof LANGUAGES)[number];

const KEY = "training_health.language";

export let language: Language = "en";

/** Through speak() of text/, which changes the words as well. */
export function setLanguage(next: Language): void {
  language = next;
}

export function preferredLanguage(): Language {
  const before = kept(KEY);
  const browser = navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
  return LANGUAGES.find((l) => l === before) ?? browser;
}

export const rememberLanguage = (chosen: Language): void => keep(KEY, chosen);
