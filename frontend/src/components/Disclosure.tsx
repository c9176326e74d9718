interface Props {
  label: string;
  open: boolean;
  onToggle: () => void;
  testid: string;
  title?: string;
}

export function Disclosure({ label, open, onToggle, testid, title }: Props) {
  return (
    <button
      type="button"
      class="disclosure"
      data-testid={testid}
      aria-expanded={open}
      title={title}
      onClick={(e) => {
        e.stopPropagation();
        onToggle();
      }}
    >
      <span aria-hidden="true">{open ? "▾" : "▸"}</span> {label}
    </button>
  );
}
