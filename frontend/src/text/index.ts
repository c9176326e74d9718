/** The words of the language in use, and the commands that are the same in all. */
import { formatDecay } from "../format";
import { type Language, setLanguage } from "../language";
import { en } from "./en";
import { zh } from "./zh";

export type Text = typeof en;

export const TEXTS: Record<Language, Text> = { en, zh };

/** A live binding: whoever shows a text reads it when it is shown. */
export let text: Text = en;

/** What is on the screen already has to be drawn again. */
export function speak(language: Language): void {
  setLanguage(language);
  text = TEXTS[language];
}

export const formatSmoothing = (s: number): string => (s === 0 ? text.smoothing.off : formatDecay(s));

/** A path as a shell takes it. */
const quoted = (path: string): string =>
  /^[\w./:@%+=-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

export const DOCTOR_COMMAND = (logdir: string): string => `tb-health doctor ${quoted(logdir || "LOGDIR")}`;

export const CALLBACK_SNIPPET = (logdir: string): string =>
  `from tb_mindformers_plugin import TrainingHealthCallback
model.train(epochs, dataset,
            callbacks=[TrainingHealthCallback(log_dir="${logdir || "logs"}/my_run")])`;
