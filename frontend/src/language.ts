/** Which language the tab speaks: the browser's, until the user switches; then that, for every log directory. */
export const LANGUAGES = ["en", "zh"] as const;
export type Language = (typeof LANGUAGES)[number];

const KEY = "training_health.language";

export let language: Language = "en";

/** Through speak() of text/, which changes the words as well. */
export function setLanguage(next: Language): void {
  language = next;
}

export function preferredLanguage(): Language {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // Storage may be blocked: the tab then only forgets.
  }
  return (
    LANGUAGES.find((l) => l === kept) ?? (navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en")
  );
}

export function rememberLanguage(chosen: Language): void {
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // see preferredLanguage
  }
}
