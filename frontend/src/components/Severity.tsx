import type { Verdict } from "../api";

const SIGN: Record<Verdict, string> = { critical: "✕", warning: "!", info: "i", ok: "✓" };

/** Severity is never colour alone. */
export const SeverityIcon = ({ of }: { of: Verdict }) => <span aria-hidden="true">{SIGN[of]}</span>;
