/** Windows that were fetched, kept for the way back: the last ones used, up to so many bytes. */
import type { SeriesQuery } from "./api";
import type { MissingSeries, Segment } from "./decode";

export interface Frame {
  readonly key: string;
  readonly query: SeriesQuery;
  readonly segments: readonly Segment[];
  readonly missing: readonly MissingSeries[];
}

const MOST_BYTES = 96 * 2 ** 20;

export class Frames {
  private readonly kept = new Map<string, Frame>();
  private bytes = 0;

  constructor(private readonly most = MOST_BYTES) {}

  get(key: string): Frame | null {
    const frame = this.kept.get(key) ?? null;
    if (frame) {
      // The order of a map is that of insertion: now it is the last one used.
      this.kept.delete(key);
      this.kept.set(key, frame);
    }
    return frame;
  }

  put(frame: Frame): void {
    this.drop(frame.key);
    this.kept.set(frame.key, frame);
    this.bytes += sizeOf(frame);
    for (const key of this.kept.keys()) {
      if (this.bytes <= this.most || this.kept.size === 1) break;
      this.drop(key);
    }
  }

  /** New points came: what was fetched before them no longer holds. */
  clear(): void {
    this.kept.clear();
    this.bytes = 0;
  }

  private drop(key: string): void {
    const frame = this.kept.get(key);
    if (!frame) return;
    this.kept.delete(key);
    this.bytes -= sizeOf(frame);
  }
}

/** A frame's own series, but those of `runs`, which come from a newer answer. */
export function joined(
  frame: Frame,
  answer: Pick<Frame, "segments" | "missing">,
  runs: readonly string[],
): Pick<Frame, "segments" | "missing"> {
  const newer = new Set(runs);
  const kept = <T extends { readonly run: string }>(before: readonly T[], now: readonly T[]): T[] => [
    ...before.filter((of) => !newer.has(of.run)),
    ...now,
  ];
  return { segments: kept(frame.segments, answer.segments), missing: kept(frame.missing, answer.missing) };
}

/** Columns are views on the answers' bytes; each answer counts once. */
function sizeOf({ segments }: Frame): number {
  const buffers = new Set(segments.map((s) => s.x.buffer));
  let bytes = 0;
  for (const buffer of buffers) bytes += buffer.byteLength;
  return bytes;
}
