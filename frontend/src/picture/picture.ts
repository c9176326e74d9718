/** A chart as a picture: what its canvases were painted with, and the words around them. */
import { pageToSvg } from "./page";
import { record } from "./record";
import { attribute, rounded } from "./xml";

/** A canvas that can be painted again. */
export interface Repaintable {
  readonly canvas: HTMLCanvasElement | null;
  /** Panels that were never scrolled to were never drawn. */
  catchUp(): void;
  repaint(): void;
}

export async function svgPicture(root: HTMLElement, charts: Iterable<Repaintable>): Promise<string> {
  for (const chart of charts) chart.catchUp();
  await new Promise((drawn) => requestAnimationFrame(drawn));
  const box = root.getBoundingClientRect();
  const painted: string[] = [];
  let bottom = box.bottom;
  let n = 0;
  for (const chart of charts) {
    const { canvas } = chart;
    const ctx = canvas?.getContext("2d");
    if (!canvas || !ctx || canvas.width === 0) continue;
    const at = canvas.getBoundingClientRect();
    bottom = Math.max(bottom, at.bottom); // of panels that have to be scrolled to
    const moved = `translate(${rounded(at.left - box.left)} ${rounded(at.top - box.top)})`;
    const scaled = `scale(${rounded(at.width / canvas.width, 5)})`;
    const drawn = record(ctx, `clip${n++}-`, () => chart.repaint());
    painted.push(`<g transform="${moved} ${scaled}">\n${drawn}\n</g>`);
  }
  const width = rounded(box.width);
  const height = rounded(bottom - box.top);
  const surface = getComputedStyle(root).backgroundColor;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<rect width="100%" height="100%"${attribute("fill", surface)}/>`,
    ...painted,
    pageToSvg(root, box),
    "</svg>\n",
  ].join("\n");
}

/** Pixels per CSS px: sharp in a paper or on a large screen. */
const DENSITY = 2;

export async function pngOf(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width * DENSITY;
  canvas.height = image.height * DENSITY;
  const ctx = canvas.getContext("2d")!;
  ctx.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the picture is too large"))), "image/png"),
  );
}
