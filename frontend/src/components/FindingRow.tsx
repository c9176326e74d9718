import type { Finding } from "../api";
import { stepsText } from "../findings";
import type { Session } from "../session";
import { text } from "../text";
import { ExpandIcon } from "./icons";
import { SeverityIcon } from "./Severity";

interface Props {
  session: Session;
  finding: Finding;
  label: string;
  colour: string;
  selected: boolean;
}

export function FindingRow({ session, finding, label, colour, selected }: Props) {
  const { severity, run, message, advice } = finding;
  const hover = (on: boolean) => {
    if (session.chosen.includes(run)) session.patch({ hovered: on ? run : null });
  };
  const toggle = () => {
    if (selected) session.showAll();
    else session.selectFinding(finding);
  };
  return (
    // The row is a larger target for the pointer; its buttons do the same for everybody else.
    // biome-ignore lint/a11y/useKeyWithClickEvents: see above
    <li
      class={selected ? "finding selected" : "finding"}
      data-testid="finding"
      data-severity={severity}
      data-run={run}
      data-rule={finding.rule}
      aria-current={selected ? "true" : undefined}
      onMouseEnter={() => hover(true)}
      onMouseLeave={() => hover(false)}
      onClick={toggle}
    >
      <span class={`disc ${severity}`} role="img" aria-label={text.findings.severity[severity]}>
        <SeverityIcon of={severity} />
      </span>
      <span class="finding-run" title={run}>
        <span class="swatch" style={{ background: colour }} />
        <span class="finding-name">{label}</span>
      </span>
      <div class="finding-said">
        <span data-testid="finding-message">{message}</span>
        {advice && (
          <p class="finding-advice" data-testid="finding-advice">
            <b>{text.findings.tryThis}</b> {advice}
          </p>
        )}
      </div>
      <span class="finding-steps number" data-testid="finding-steps">
        {stepsText(finding)}
      </span>
      <button
        type="button"
        class="link zoom"
        data-testid="finding-zoom"
        aria-pressed={selected}
        aria-label={`${text.findings.zoom}: ${message}`}
        title={selected ? text.findings.unzoom : text.findings.zoomTitle}
        onClick={(e) => {
          e.stopPropagation();
          toggle();
        }}
      >
        {text.findings.zoom} <ExpandIcon />
      </button>
    </li>
  );
}
