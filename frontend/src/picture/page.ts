/** The words, swatches and small drawings around a chart's canvas, as SVG elements in CSS px. */
import { attribute, escaped, rounded } from "./xml";

/** Controls and what follows the pointer are no part of a picture. */
const LEFT_OUT =
  "canvas, select, input, fieldset, .button, .link, .tooltip, .field, .loading-line, .u-legend";

export function pageToSvg(root: HTMLElement, origin: DOMRect): string {
  const out: string[] = [];
  const visit = (node: Node): void => {
    if (node.nodeType === Node.TEXT_NODE) {
      out.push(...words(node as Text, origin));
      return;
    }
    if (!(node instanceof Element) || node.matches(LEFT_OUT)) return;
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden") return;
    if (node instanceof SVGSVGElement) {
      out.push(drawing(node, style.color, origin));
      return;
    }
    if (node !== root) out.push(...background(node, style, origin));
    for (const child of node.childNodes) visit(child);
  };
  visit(root);
  return out.join("\n");
}

function background(el: Element, style: CSSStyleDeclaration, origin: DOMRect): string[] {
  const box = el.getBoundingClientRect();
  if (style.backgroundColor === "rgba(0, 0, 0, 0)" || box.width === 0) return [];
  return [
    `<rect${place(box, origin)}${attribute("width", rounded(box.width))}${attribute("height", rounded(box.height))}` +
      `${attribute("rx", rounded(Math.min(Number.parseFloat(style.borderRadius) || 0, box.height / 2)))}` +
      `${attribute("fill", style.backgroundColor)}/>`,
  ];
}

function words(node: Text, origin: DOMRect): string[] {
  const parent = node.parentElement;
  if (!parent) return [];
  const { color, fontFamily, fontSize, fontWeight } = getComputedStyle(parent);
  const font = `font:${fontWeight} ${fontSize} ${fontFamily}`;
  return lines(node).map(
    ({ text, box }) =>
      `<text xml:space="preserve"${attribute("x", rounded(box.left - origin.left))}` +
      `${attribute("y", rounded(box.top - origin.top + box.height / 2))} dominant-baseline="central"` +
      `${attribute("style", font)}${attribute("fill", color)}>${escaped(text)}</text>`,
  );
}

/** A text that is broken into lines, as it stands on the page. */
function lines(node: Text): { text: string; box: DOMRect }[] {
  const range = document.createRange();
  range.selectNodeContents(node);
  const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
  if (boxes.length <= 1) return boxes.map((box) => ({ text: node.data.replace(/\s+/g, " "), box }));
  const found: { text: string; box: DOMRect }[] = [];
  for (let i = 0; i < node.data.length; i++) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const box = range.getBoundingClientRect();
    const last = found.at(-1);
    if (last && Math.abs(last.box.top - box.top) < 2) last.text += node.data[i];
    else found.push({ text: node.data[i]!, box });
  }
  return found;
}

function drawing(svg: SVGSVGElement, colour: string, origin: DOMRect): string {
  const box = svg.getBoundingClientRect();
  const copy = svg.cloneNode(true) as SVGSVGElement;
  resolveColours(svg, copy);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("x", rounded(box.left - origin.left));
  copy.setAttribute("y", rounded(box.top - origin.top));
  copy.setAttribute("color", colour);
  copy.removeAttribute("class");
  return new XMLSerializer().serializeToString(copy);
}

/** Custom properties mean nothing outside of this page. */
function resolveColours(from: Element, to: Element): void {
  for (const name of ["fill", "stroke"]) {
    if (from.getAttribute(name)?.startsWith("var(")) {
      to.setAttribute(name, getComputedStyle(from).getPropertyValue(name));
    }
  }
  for (let i = 0; i < from.children.length; i++) resolveColours(from.children[i]!, to.children[i]!);
}

const place = (box: DOMRect, origin: DOMRect): string =>
  attribute("x", rounded(box.left - origin.left)) + attribute("y", rounded(box.top - origin.top));
