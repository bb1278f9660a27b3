// Colours of functions, as in downloaded pictures: the same name or module always has the same one.
// Black text is readable on all of them, whatever the scheme of the page.

import type { Frame } from "./tree";

/** What colours show. Those of a difference show the difference. */
export const COLOURS = ["function", "module", "share"] as const;
export type Colour = (typeof COLOURS)[number];

const hash = (text: string) =>
  [...text].reduce((sum, char) => (sum * 31 + char.codePointAt(0)!) % 9_973, 0);

const isNone = (name: string) => /^[<([]/.test(name);

/** The package of an installed module, the folder of another file, or the library. */
export function moduleOf(name: string, file: string): string {
  if (!file) return isNone(name) ? name : name.split(/[.:]/)[0] || name;
  const parts = file.split(/[/\\]/).filter((part) => part);
  const isRoot = (part: string) => /^(site-packages|dist-packages|python3\..*)$/.test(part);
  const root = parts.map(isRoot).lastIndexOf(true);
  const installed = root < 0 ? undefined : parts[root + 1];
  const folder = file.startsWith("/") && parts.length > 1 ? parts.at(-2) : parts[0];
  return (installed ?? folder ?? file).replace(/\.py$/, "");
}

/** In a difference red is more and blue less; without one grey is what is no function. */
export function colourOf({ node, width }: Frame, by: Colour, deltaMax: number): string {
  const { name, file, delta } = node;
  if (delta !== undefined) {
    const strength = deltaMax > 0 ? Math.abs(delta) / deltaMax : 0;
    return `hsl(${delta > 0 ? 4 : 214},85%,${Math.round(96 - 34 * Math.sqrt(strength))}%)`;
  }
  if (by === "share") {
    // The root spreads what has little.
    const root = Math.sqrt(Math.min(width, 1));
    return `hsl(${Math.round(52 - 44 * root)},90%,${Math.round(84 - 18 * root)}%)`;
  }
  if (isNone(name)) return "hsl(220,8%,78%)";
  if (by === "module") {
    return `hsl(${hash(moduleOf(name, file)) % 360},60%,${70 + (hash(name) % 10)}%)`;
  }
  return `hsl(${hash(name) % 50},85%,70%)`;
}
