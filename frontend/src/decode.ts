/**
 * The binary answer of POST series: "THB1", u32 length of a JSON header padded to 8 bytes, then all
 * float64 columns, all float32, all uint32. Columns become views on the answer: nothing is copied.
 */
import type { Role } from "./roles";

export interface NonFinite {
  /** Indices into the segment's points. */
  readonly idx: Uint32Array;
  readonly nan: Uint32Array;
  readonly posinf: Uint32Array;
  readonly neginf: Uint32Array;
}

export interface Segment {
  readonly run: string;
  readonly role: Role;
  readonly tag: string;
  readonly unit: string;
  /** False for what a restart superseded. */
  readonly current: boolean;
  /** Every logged point is here; otherwise each entry stands for a bucket of points. */
  readonly raw: boolean;
  readonly n: number;
  readonly ymin: number | null;
  readonly ymax: number | null;
  readonly p1: number | null;
  readonly p99: number | null;
  readonly x: Float64Array;
  readonly min: Float32Array;
  readonly max: Float32Array;
  readonly last: Float32Array;
  readonly smoothed: Float32Array | null;
  readonly nonfinite: NonFinite | null;
}

export interface MissingSeries {
  readonly run: string;
  readonly role: Role;
  readonly reason: string;
}

export interface SeriesAnswer {
  readonly segments: readonly Segment[];
  readonly missing: readonly MissingSeries[];
}

interface SegmentHeader extends Omit<Segment, "x" | "min" | "max" | "last" | "smoothed" | "nonfinite"> {
  x: number;
  min: number;
  max: number;
  last: number;
  smoothed: number | null;
  nonfinite: { n: number; idx: number; nan: number; posinf: number; neginf: number } | null;
}

/** The answer is not what this tab understands: cut off, or of another version. */
export class DecodeError extends Error {}

const MAGIC = 0x31424854; // "THB1", little-endian

export function decodeSeries(buffer: ArrayBuffer): SeriesAnswer {
  if (buffer.byteLength < 8) throw new DecodeError("the answer is cut off");
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC) throw new DecodeError("the answer does not begin with THB1");
  const body = 8 + view.getUint32(4, true);
  if (body > buffer.byteLength) throw new DecodeError("the answer is cut off in its header");
  if (body % 8 !== 0) throw new DecodeError("the header is not padded to 8 bytes");

  let header: { segments: SegmentHeader[]; missing?: MissingSeries[] };
  try {
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, body - 8)));
  } catch {
    throw new DecodeError("the header is not JSON");
  }

  const column = <T>(
    type: { new (b: ArrayBuffer, o: number, n: number): T; BYTES_PER_ELEMENT: number },
    offset: number,
    n: number,
  ): T => {
    if (offset < 0 || body + offset + n * type.BYTES_PER_ELEMENT > buffer.byteLength) {
      throw new DecodeError("a column reaches past the end of the answer");
    }
    return new type(buffer, body + offset, n);
  };

  const segments = header.segments.map((h): Segment => {
    const f32 = (offset: number) => column(Float32Array, offset, h.n);
    const gaps = h.nonfinite;
    const u32 = (offset: number) => column(Uint32Array, offset, gaps?.n ?? 0);
    return {
      run: h.run,
      role: h.role,
      tag: h.tag,
      unit: h.unit,
      current: h.current,
      raw: h.raw,
      n: h.n,
      ymin: h.ymin,
      ymax: h.ymax,
      p1: h.p1,
      p99: h.p99,
      x: column(Float64Array, h.x, h.n),
      min: f32(h.min),
      max: f32(h.max),
      last: f32(h.last),
      smoothed: h.smoothed === null ? null : f32(h.smoothed),
      nonfinite: gaps && {
        idx: u32(gaps.idx),
        nan: u32(gaps.nan),
        posinf: u32(gaps.posinf),
        neginf: u32(gaps.neginf),
      },
    };
  });
  return { segments, missing: header.missing ?? [] };
}
