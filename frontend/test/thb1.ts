/** Writes the binary answer as the server does, for tests. */
import type { Role } from "../src/roles";

export interface TestSegment {
  run: string;
  role: Role;
  x: number[];
  last: number[];
  min?: number[];
  max?: number[];
  smoothed?: number[];
  current?: boolean;
  nonfinite?: { idx: number[]; nan: number[]; posinf: number[]; neginf: number[] };
}

export function encode(segments: TestSegment[], missing: unknown[] = []): ArrayBuffer {
  const f64: number[] = [];
  const f32: number[] = [];
  const u32: number[] = [];
  const put = (to: number[], values: number[]) => {
    const at = to.length;
    to.push(...values);
    return at;
  };
  const places = segments.map((s) => {
    const last = put(f32, s.last);
    return {
      x: put(f64, s.x),
      last,
      min: s.min ? put(f32, s.min) : last,
      max: s.max ? put(f32, s.max) : last,
      smoothed: s.smoothed ? put(f32, s.smoothed) : null,
      gaps: s.nonfinite && {
        n: s.nonfinite.idx.length,
        idx: put(u32, s.nonfinite.idx),
        nan: put(u32, s.nonfinite.nan),
        posinf: put(u32, s.nonfinite.posinf),
        neginf: put(u32, s.nonfinite.neginf),
      },
    };
  });
  const f32Begin = 8 * f64.length;
  const u32Begin = f32Begin + 4 * f32.length;
  const inF32 = (i: number) => f32Begin + 4 * i;
  const inU32 = (i: number) => u32Begin + 4 * i;
  const headers = segments.map((s, k) => {
    const p = places[k]!;
    const finite = s.last.filter(Number.isFinite);
    return {
      run: s.run,
      role: s.role,
      tag: `train/${s.role}`,
      unit: "",
      current: s.current ?? true,
      raw: !s.min,
      n: s.x.length,
      ymin: finite.length ? Math.min(...finite) : null,
      ymax: finite.length ? Math.max(...finite) : null,
      p1: finite.length ? Math.min(...finite) : null,
      p99: finite.length ? Math.max(...finite) : null,
      x: 8 * p.x,
      last: inF32(p.last),
      min: inF32(p.min),
      max: inF32(p.max),
      smoothed: p.smoothed === null ? null : inF32(p.smoothed),
      nonfinite: p.gaps
        ? {
            n: p.gaps.n,
            idx: inU32(p.gaps.idx),
            nan: inU32(p.gaps.nan),
            posinf: inU32(p.gaps.posinf),
            neginf: inU32(p.gaps.neginf),
          }
        : null,
    };
  });
  let json = JSON.stringify({ segments: headers, missing });
  while (new TextEncoder().encode(json).length % 8 !== 0) json += " ";
  const head = new TextEncoder().encode(json);
  const buffer = new ArrayBuffer(8 + head.length + u32Begin + 4 * u32.length);
  const view = new DataView(buffer);
  new Uint8Array(buffer).set(new TextEncoder().encode("THB1"));
  view.setUint32(4, head.length, true);
  new Uint8Array(buffer).set(head, 8);
  const body = 8 + head.length;
  new Float64Array(buffer, body, f64.length).set(f64);
  new Float32Array(buffer, body + f32Begin, f32.length).set(f32);
  new Uint32Array(buffer, body + u32Begin, u32.length).set(u32);
  return buffer;
}
