/** Charts that show the same stretch of x: one cursor, one zoom, one moving picture over all of them. */
import type { Chart } from "./chart";
import type { Window } from "./window";

export class ChartGroup {
  private readonly charts = new Set<Chart>();
  private lit: string | null = null;

  add(chart: Chart): void {
    this.charts.add(chart);
    chart.light(this.lit);
  }

  remove(chart: Chart): void {
    this.charts.delete(chart);
  }

  /** The line of the cursor in all charts but the one that the pointer is over. */
  point(x: number | null, except?: Chart): void {
    for (const chart of this.charts) if (chart !== except) chart.pointTo(x);
  }

  mark(stretch: Window | null): void {
    for (const chart of this.charts) chart.markTo(stretch);
  }

  preview(window: Window): void {
    for (const chart of this.charts) chart.preview(window);
  }

  light(run: string | null): void {
    this.lit = run;
    for (const chart of this.charts) chart.light(run);
  }
}
