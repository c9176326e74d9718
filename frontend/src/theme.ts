/** Colours. The same tokens feed the style sheet (as custom properties) and the canvas. */

export type ThemeName = "light" | "dark";
export type ThemeChoice = "auto" | ThemeName;

const LIGHT = {
  bg: "#f4f5f7",
  surface: "#ffffff",
  raised: "#ffffff",
  hover: "#eef1f4",
  selected: "#e6eef8",
  line: "#dde1e6",
  control: "#868f9b",
  text: "#1a1e23",
  text2: "#454e59",
  text3: "#606a76",
  accent: "#175cab",
  onAccent: "#ffffff",
  ok: "#12713f",
  okBg: "#e2f3e9",
  info: "#22609f",
  infoBg: "#e3eef9",
  warning: "#855800",
  warningBg: "#fdf0cf",
  critical: "#b3202c",
  criticalBg: "#fce4e4",
  grid: "#e9ecef",
  code: "#f1f3f5",
  loss: "#0b62b0",
  grad_norm: "#b04a00",
  lr: "#00735c",
  loss_scale: "#8436a8",
};

export type Tokens = { readonly [K in keyof typeof LIGHT]: string };

const DARK: Tokens = {
  bg: "#17191c",
  surface: "#1f2226",
  raised: "#2a2e33",
  hover: "#292d32",
  selected: "#22344a",
  line: "#363b41",
  control: "#7f8893",
  text: "#eceef0",
  text2: "#c0c6cd",
  text3: "#9aa2ac",
  accent: "#7fb4f0",
  onAccent: "#10151b",
  ok: "#6fd09a",
  okBg: "#1b3a2a",
  info: "#8abdf2",
  infoBg: "#1d334b",
  warning: "#f0c05a",
  warningBg: "#3d3215",
  critical: "#ff9a96",
  criticalBg: "#4a2124",
  grid: "#2c3035",
  code: "#17191c",
  loss: "#6db3f2",
  grad_norm: "#f0a060",
  lr: "#4cc9a8",
  loss_scale: "#d79af0",
};

export const TOKENS: Record<ThemeName, Tokens> = { light: LIGHT, dark: DARK };

export function applyTokens(name: ThemeName, root: HTMLElement = document.documentElement): void {
  for (const [token, colour] of Object.entries(TOKENS[name])) root.style.setProperty(`--${token}`, colour);
  root.style.colorScheme = name;
  root.dataset.theme = name;
}

/** Follows TensorBoard's page (it marks its body), or the system where there is no such page. */
export function watchHostTheme(onChange: (name: ThemeName) => void): void {
  const hostBody = reachableHostBody();
  if (hostBody) {
    const tell = () => onChange(hostBody.classList.contains("dark-mode") ? "dark" : "light");
    new MutationObserver(tell).observe(hostBody, { attributes: true, attributeFilter: ["class"] });
    tell();
    return;
  }
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const tell = () => onChange(system.matches ? "dark" : "light");
  system.addEventListener("change", tell);
  tell();
}

function reachableHostBody(): HTMLElement | null {
  try {
    return window.parent === window ? null : window.parent.document.body;
  } catch {
    return null; // a notebook on another origin
  }
}
