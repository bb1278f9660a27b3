// Colours of functions. Those by function and by module come with their names, as in downloaded
// pictures. Black text is readable on all of them, whatever the scheme of the page.

import type { Frame } from "./tree";

/** What colours show. Those of a difference show the difference. */
export const COLOURS = ["function", "module", "share"] as const;
export type Colour = (typeof COLOURS)[number];

/** In a difference red is more and blue less. */
export function colourOf({ node, width }: Frame, by: Colour, deltaMax: number): string {
  const { delta, colours } = node;
  if (delta !== undefined) {
    const strength = deltaMax > 0 ? Math.abs(delta) / deltaMax : 0;
    return `hsl(${delta > 0 ? 4 : 214},85%,${Math.round(96 - 34 * Math.sqrt(strength))}%)`;
  }
  if (by === "share") {
    // The root spreads what has little.
    const root = Math.sqrt(Math.min(width, 1));
    return `hsl(${Math.round(52 - 44 * root)},90%,${Math.round(84 - 18 * root)}%)`;
  }
  return colours[by === "module" ? 1 : 0];
}
