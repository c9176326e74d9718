import { type ChartRole, ROLE_STYLE } from "../roles";

/** A short piece of the line as the chart draws it, in the text's colour. */
export function LineSample({ of: role }: { of: ChartRole }) {
  const style = ROLE_STYLE[role];
  const path = role === "loss_scale" ? "M1 9h6V3h8v6h6" : "M1 6h21";
  return (
    <svg class="sample" width="23" height="12" aria-hidden="true">
      <path
        d={path}
        fill="none"
        stroke="currentColor"
        stroke-width={style.width}
        stroke-dasharray={style.dash.join(" ") || undefined}
      />
    </svg>
  );
}
