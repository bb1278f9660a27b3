// Colours of a flame graph, the same as in the SVG for download (`colour.rs`). Black text is
// readable on all of them, whatever the scheme of the page.

import type { FlameNode } from "./tree";

/** FNV-1a: a name has its colour in every picture. */
function hash(name: string): number {
  let of = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) of = Math.imul(of ^ byte, 0x01000193) >>> 0;
  return of;
}

/** Warm colours for functions, grey for what is none; in a difference red is more, blue less. */
export function colour({ name, delta }: FlameNode, deltaMax: number): string {
  if (delta !== undefined) {
    const strength = deltaMax > 0 ? Math.min(Math.abs(delta) / deltaMax, 1) : 0;
    return `hsl(${delta > 0 ? 4 : 214},85%,${Math.round(96 - 34 * Math.sqrt(strength))}%)`;
  }
  const of = hash(name);
  if (/^[<([]/.test(name)) return `hsl(220,8%,${74 + (of % 10)}%)`;
  const part = (by: number, modulo: number) => Math.floor(of / by) % modulo;
  return `hsl(${of % 50},${75 + part(50, 20)}%,${65 + part(1_000, 12)}%)`;
}
