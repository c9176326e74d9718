/** Symbols that not every system font has; all 14 px, drawn with the text's colour. */
import type { ComponentChildren } from "preact";

function Icon({ children, size = 14 }: { children: ComponentChildren; size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 14 14"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

export const SearchIcon = () => (
  <Icon>
    <circle cx="6" cy="6" r="4" />
    <path d="m9 9 3.5 3.5" />
  </Icon>
);

export const ReloadIcon = () => (
  <Icon>
    <path d="M11.8 5.2A5 5 0 1 0 12 8" />
    <path d="M12.2 2v3.4H8.8" />
  </Icon>
);

/** Back to a checkpoint: a loop with a dot in it. */
export const RestartIcon = () => (
  <Icon size={11}>
    <path d="M2.2 5.2A5 5 0 1 1 2 8" />
    <path d="M1.8 2v3.4h3.4" />
    <circle cx="7" cy="7" r="0.8" fill="currentColor" stroke="none" />
  </Icon>
);

export const LockIcon = ({ open }: { open: boolean }) => (
  <Icon>
    <rect x="2.5" y="6.5" width="9" height="6" rx="1" />
    <path d={open ? "M4.5 6.5V4a2.5 2.5 0 0 1 4.8-1" : "M4.5 6.5V4a2.5 2.5 0 0 1 5 0v2.5"} />
  </Icon>
);

export const MoonIcon = () => (
  <Icon>
    <path d="M11.8 8.6A5.2 5.2 0 0 1 5.4 2.2a5.2 5.2 0 1 0 6.4 6.4Z" />
  </Icon>
);

export const SunIcon = () => (
  <Icon>
    <circle cx="7" cy="7" r="2.6" />
    <path d="M7 1v1.2M7 11.8V13M1 7h1.2M11.8 7H13M2.8 2.8l.8.8M10.4 10.4l.8.8M2.8 11.2l.8-.8M10.4 3.6l.8-.8" />
  </Icon>
);

export const EmptyCircleIcon = () => (
  <Icon>
    <circle cx="7" cy="7" r="5" stroke-dasharray="1.5 2" stroke-width="1.2" />
  </Icon>
);

/** Two arrows apart: more of it. */
export const ExpandIcon = () => (
  <Icon size={11}>
    <path d="M8.5 1.5h4v4M12.5 1.5 8 6M5.5 12.5h-4v-4M1.5 12.5 6 8" />
  </Icon>
);

export const FlagIcon = () => (
  <Icon size={12}>
    <path d="M3 13V1.5M3 2h8l-2 3 2 3H3" />
  </Icon>
);

export const PaletteIcon = () => (
  <Icon size={12}>
    <path d="M7 1.5a5.5 5.5 0 1 0 0 11c1 0 1.4-.7 1-1.5-.5-1 .2-2 1.4-2h1.2c1.2 0 1.9-.8 1.9-2C12.5 4 10 1.5 7 1.5Z" />
    <path d="M4.5 6h.01M7 4.2h.01M9.5 6h.01" stroke-width="1.8" />
  </Icon>
);

export const LinkIcon = () => (
  <Icon>
    <path d="M6 8a2.6 2.6 0 0 0 3.7 0l2-2A2.6 2.6 0 0 0 8 2.3L7 3.3M8 6a2.6 2.6 0 0 0-3.7 0l-2 2A2.6 2.6 0 0 0 6 11.7l1-1" />
  </Icon>
);
