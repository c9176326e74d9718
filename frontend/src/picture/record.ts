/** What is painted on a canvas, as SVG: the same calls, written down while they are made. */
import { attribute, escaped, rounded } from "./xml";

interface State {
  readonly clip: string | null;
}

type Context = CanvasRenderingContext2D;

/**
 * Runs `paint`, which paints on `ctx`, and returns SVG elements in canvas px.
 * `prefix` tells the clip paths of several canvases in one document apart.
 */
export function record(ctx: Context, prefix: string, paint: () => void): string {
  const recorder = new Recorder(ctx, prefix);
  const own = ctx as unknown as Record<string, unknown>;
  const calls = recorder.calls();
  for (const [name, call] of Object.entries(calls)) {
    const real = (ctx as unknown as Record<string, (...a: unknown[]) => unknown>)[name]!;
    // On this one object only; the prototype's method is there again once it is deleted.
    own[name] = (...args: unknown[]) => {
      (call as (...a: unknown[]) => void)(...args);
      return real.apply(ctx, args);
    };
  }
  try {
    paint();
  } finally {
    for (const name of Object.keys(calls)) delete own[name];
  }
  return recorder.svg;
}

class Recorder {
  private readonly out: string[] = [];
  private path = "";
  private state: State = { clip: null };
  private readonly saved: State[] = [];
  private clips = 0;

  constructor(
    private readonly ctx: Context,
    private readonly prefix: string,
  ) {}

  get svg(): string {
    return this.out.join("\n");
  }

  calls() {
    return {
      save: () => this.saved.push(this.state),
      restore: () => {
        this.state = this.saved.pop() ?? this.state;
      },
      beginPath: () => {
        this.path = "";
      },
      moveTo: (x: number, y: number) => this.add("M", x, y),
      lineTo: (x: number, y: number) => this.add(this.path ? "L" : "M", x, y),
      closePath: () => {
        this.path += "Z";
      },
      rect: (x: number, y: number, w: number, h: number) => {
        this.path += boxPath(x, y, w, h);
      },
      roundRect: (x: number, y: number, w: number, h: number) => {
        this.path += boxPath(x, y, w, h);
      },
      arc: (x: number, y: number, r: number, from: number, to: number) => this.arc(x, y, r, from, to),
      // A path given as an object is one of uPlot's own series, which are empty here.
      stroke: (path?: Path2D) => path || this.stroke(),
      fill: (path?: unknown) => (path && typeof path === "object") || this.fill(this.path),
      clip: (path?: unknown) => (path && typeof path === "object") || this.clip(),
      fillRect: (x: number, y: number, w: number, h: number) => this.fill(boxPath(x, y, w, h)),
      fillText: (said: string, x: number, y: number) => this.text(said, x, y, this.paint("fill")),
      strokeText: (said: string, x: number, y: number) => this.text(said, x, y, this.outline()),
    };
  }

  private add(command: string, x: number, y: number): void {
    this.path += `${command}${rounded(x)} ${rounded(y)}`;
  }

  private arc(x: number, y: number, r: number, from: number, to: number): void {
    const at = (angle: number) => `${rounded(x + r * Math.cos(angle))} ${rounded(y + r * Math.sin(angle))}`;
    const middle = (from + to) / 2;
    // In two halves: one arc cannot be a whole circle.
    this.path += `${this.path ? "L" : "M"}${at(from)}`;
    for (const end of [middle, to]) this.path += `A${rounded(r)} ${rounded(r)} 0 0 1 ${at(end)}`;
  }

  private stroke(): void {
    if (this.path) this.element("path", attribute("d", this.path) + this.outline());
  }

  private fill(path: string): void {
    if (path) this.element("path", attribute("d", path) + this.paint("fill"));
  }

  private clip(): void {
    const id = `${this.prefix}${this.clips++}`;
    const outer = this.state.clip === null ? "" : attribute("clip-path", `url(#${this.state.clip})`);
    this.out.push(`<clipPath id="${id}"${outer}><path${attribute("d", this.path)}/></clipPath>`);
    this.state = { clip: id };
  }

  private text(said: string, x: number, y: number, paint: string): void {
    const { font, textAlign, textBaseline } = this.ctx;
    const anchor = { right: "end", end: "end", center: "middle", left: "start", start: "start" }[textAlign];
    const baseline = { middle: "central", top: "hanging", hanging: "hanging", bottom: "text-after-edge" }[
      textBaseline as string
    ];
    const place = attribute("x", rounded(x)) + attribute("y", rounded(y));
    const style = attribute("style", `font:${font}`) + attribute("text-anchor", anchor);
    this.element("text", place + style + attribute("dominant-baseline", baseline) + paint, escaped(said));
  }

  private paint(kind: "fill" | "stroke"): string {
    const style = kind === "fill" ? this.ctx.fillStyle : this.ctx.strokeStyle;
    const { globalAlpha } = this.ctx;
    return (
      attribute(kind, typeof style === "string" ? style : "none") +
      (globalAlpha < 1 ? attribute(`${kind}-opacity`, rounded(globalAlpha, 3)) : "")
    );
  }

  private outline(): string {
    const { lineWidth, lineJoin } = this.ctx;
    const dash = this.ctx.getLineDash();
    return (
      this.paint("stroke") +
      attribute("fill", "none") +
      attribute("stroke-width", rounded(lineWidth)) +
      (lineJoin === "miter" ? "" : attribute("stroke-linejoin", lineJoin)) +
      (dash.length > 0 ? attribute("stroke-dasharray", dash.map((d) => rounded(d)).join(" ")) : "")
    );
  }

  private element(name: string, attributes: string, content = ""): void {
    const { a, b, c, d, e, f } = this.ctx.getTransform();
    const moved = a !== 1 || b !== 0 || c !== 0 || d !== 1 || e !== 0 || f !== 0;
    const matrix = moved
      ? attribute("transform", `matrix(${[a, b, c, d, e, f].map((n) => rounded(n, 4)).join(" ")})`)
      : "";
    const clip = this.state.clip === null ? "" : attribute("clip-path", `url(#${this.state.clip})`);
    const element = `<${name}${attributes}${matrix}>${content}</${name}>`;
    // The clip is in the canvas's own coordinates, not in the moved ones.
    this.out.push(
      clip && matrix
        ? `<g${clip}>${element}</g>`
        : `<${name}${attributes}${matrix}${clip}>${content}</${name}>`,
    );
  }
}

const boxPath = (x: number, y: number, w: number, h: number): string =>
  `M${rounded(x)} ${rounded(y)}h${rounded(w)}v${rounded(h)}h${rounded(-w)}Z`;
