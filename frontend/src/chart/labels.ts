/** Labels at the ends of lines: moved apart where they would collide, never past the frame. */

export interface LabelBox {
  readonly left: number;
  readonly width: number;
  /** Wanted vertical centre. */
  readonly y: number;
}

/**
 * Places in a row for things of these widths, `gap` apart: as near as can be (least squares) to where each is
 * wanted, in the same order, within the row.
 */
export function placeInRow(
  wanted: readonly { readonly at: number; readonly width: number }[],
  gap: number,
  first: number,
  last: number,
): number[] {
  // Less what must lie between them, places only have to be in order: that is isotonic regression.
  const offsets: number[] = [];
  let offset = 0;
  wanted.forEach(({ width }, i) => {
    if (i > 0) offset += (wanted[i - 1]!.width + width) / 2 + gap;
    offsets.push(offset);
  });
  const pools: { sum: number; n: number }[] = [];
  wanted.forEach(({ at }, i) => {
    let pool = { sum: at - offsets[i]!, n: 1 };
    for (
      let before = pools.at(-1);
      before && before.sum / before.n > pool.sum / pool.n;
      before = pools.at(-1)
    ) {
      pools.pop();
      pool = { sum: before.sum + pool.sum, n: before.n + pool.n };
    }
    pools.push(pool);
  });
  const highest = Math.max(first, last - offset);
  const places = pools.flatMap(({ sum, n }) => Array<number>(n).fill(sum / n));
  return places.map((at, i) => Math.max(first, Math.min(highest, at)) + offsets[i]!);
}

/** Centres for the boxes, at least `apart` from any other they share a stretch of x with. */
export function separateLabels(
  boxes: readonly LabelBox[],
  apart: number,
  top: number,
  bottom: number,
): number[] {
  const placed = boxes.map((b) => b.y);
  for (const group of overlappingGroups(boxes)) {
    group.sort((a, b) => boxes[a]!.y - boxes[b]!.y);
    spread(group, placed, apart, top, bottom);
  }
  return placed;
}

function overlappingGroups(boxes: readonly LabelBox[]): number[][] {
  const order = boxes.map((_, i) => i).sort((a, b) => boxes[a]!.left - boxes[b]!.left);
  const groups: number[][] = [];
  let reach = Number.NEGATIVE_INFINITY;
  for (const i of order) {
    const box = boxes[i]!;
    if (box.left >= reach) groups.push([]);
    groups[groups.length - 1]!.push(i);
    reach = Math.max(reach, box.left + box.width);
  }
  return groups;
}

/** Pools neighbours that are too close and lays each pool out around its members' mean. */
function spread(group: readonly number[], y: number[], apart: number, top: number, bottom: number): void {
  interface Pool {
    members: number[];
    centre: number;
  }
  const pools: Pool[] = [];
  const half = (p: Pool) => ((p.members.length - 1) * apart) / 2;
  const settle = (p: Pool) => {
    const mean = p.members.reduce((sum, i) => sum + y[i]!, 0) / p.members.length;
    p.centre = Math.max(top + half(p), Math.min(bottom - half(p), mean));
  };
  for (const i of group) {
    let pool: Pool = { members: [i], centre: 0 };
    settle(pool);
    for (let before = pools[pools.length - 1]; before; before = pools[pools.length - 1]) {
      if (pool.centre - half(pool) - (before.centre + half(before)) >= apart) break;
      pools.pop();
      pool = { members: [...before.members, ...pool.members], centre: 0 };
      settle(pool);
    }
    pools.push(pool);
  }
  const placed = new Map<number, number>();
  for (const pool of pools) {
    pool.members.forEach((i, k) => {
      placed.set(i, pool.centre - half(pool) + k * apart);
    });
  }
  for (const [i, at] of placed) y[i] = at;
}
