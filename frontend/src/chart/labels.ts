/** Labels at the ends of lines: moved apart where they would collide, never past the frame. */

export interface LabelBox {
  readonly left: number;
  readonly width: number;
  /** Wanted vertical centre. */
  readonly y: number;
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
