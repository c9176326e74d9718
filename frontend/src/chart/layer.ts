/** A transparent canvas over the picture, for what changes while the picture stays. */

export class Layer {
  readonly canvas = document.createElement("canvas");

  constructor(host: HTMLElement, name: string) {
    this.canvas.className = `layer ${name}`;
    host.append(this.canvas);
  }

  /** Cleared, and as large as the host (CSS px) at so many canvas px per CSS px. */
  clear(size: { readonly width: number; readonly height: number }, ratio: number): CanvasRenderingContext2D {
    const width = Math.round(size.width * ratio);
    const height = Math.round(size.height * ratio);
    const { canvas } = this;
    const ctx = canvas.getContext("2d")!;
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    } else ctx.clearRect(0, 0, width, height);
    return ctx;
  }

  remove(): void {
    this.canvas.remove();
  }
}
