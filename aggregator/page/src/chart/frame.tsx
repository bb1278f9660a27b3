// A chart over time: axes, a cursor that mouse and keyboard move, zooming, and what the cursor is on
// in words. What is between the axes is drawn by the caller.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { when } from "../units";
import { ChartFigure, type DrawnTable, type Source } from "./files";
import { position, type Scale, ticks, timeTicks, valueAt } from "./scale";

export interface Geometry {
  width: number;
  height: number;
  x: (seconds: number) => number;
  y: (value: number) => number;
}

export interface Colours {
  text: string;
  muted: string;
  grid: string;
  surface: string;
  limit: string;
  accent: string;
  isDark: boolean;
  series: string[];
}

export interface Column {
  from: number;
  to: number;
}

interface Props extends Source {
  label: string;
  /** What stands above it; the label without the names that the view has already. */
  title: string;
  from: number;
  to: number;
  columns: Column[];
  scale: Scale;
  format: (value: number) => string;
  height: number;
  /** Draws the content; drawn again when it is another function. */
  draw: (context: CanvasRenderingContext2D, at: Geometry, colours: Colours) => void;
  /** What is at a column, and at a value if the cursor has one. */
  read: (column: number, value: number | null) => string;
  /** What is drawn, as a file. */
  table: () => DrawnTable;
  /** Values that the up and down keys stop at. */
  stops?: number[];
  cursor: number | null;
  onCursor: (seconds: number | null) => void;
  onZoom?: (from: number, to: number) => void;
  /** Width of what stands left of the plot, `beside`; without it, of the values of the axis. */
  left?: number;
  beside?: ComponentChildren;
  /** What up and down do, in words. */
  moves?: string;
  children?: ComponentChildren;
}

/** Of the letters on an axis; on a wall they grow as all others do. */
export const LETTERS = 0.8 * parseFloat(getComputedStyle(document.documentElement).fontSize);
export const LEFT = 5.7 * LETTERS;
const RIGHT = 10;
export const TOP = 8;
export const BOTTOM = 2 * LETTERS;

function colours(of: Element): Colours {
  const style = getComputedStyle(of);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: get("--text"),
    muted: get("--muted"),
    grid: get("--grid"),
    surface: get("--surface"),
    limit: get("--limit"),
    accent: get("--accent"),
    isDark: get("--is-dark") === "1",
    series: [1, 2, 3, 4, 5, 6].map((n) => get(`--series-${n}`)),
  };
}

/** Sizes a canvas in CSS pixels, sharp on this screen. */
function prepare(canvas: HTMLCanvasElement, width: number, height: number) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Width of an element, and a number that changes with the theme. */
function useSurroundings(of: { current: HTMLElement | null }): [number, number] {
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  useLayoutEffect(() => {
    const element = of.current!;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    setWidth(element.clientWidth);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const onTheme = () => setTheme((n) => n + 1);
    dark.addEventListener("change", onTheme);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", onTheme);
    };
  }, []);
  return [width, theme];
}

function axes(
  context: CanvasRenderingContext2D,
  at: Geometry,
  { from, to, scale, format, left = LEFT }: Props,
  of: Colours,
) {
  context.font = `${LETTERS}px system-ui, sans-serif`;
  context.lineWidth = 1;
  context.strokeStyle = of.grid;
  context.fillStyle = of.muted;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const right = at.width - RIGHT;
  const bottom = at.height - BOTTOM;
  for (const value of ticks(scale, Math.max(2, (bottom - TOP) / (2.8 * LETTERS)))) {
    const y = Math.round(at.y(value)) + 0.5;
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(right, y);
    context.stroke();
    context.fillText(format(value), left - 8, y);
  }
  context.textAlign = "center";
  context.textBaseline = "top";
  const withDays = to - from > 86_400;
  for (const time of timeTicks(from, to, (right - left) / (7 * LETTERS))) {
    const x = Math.round(at.x(time)) + 0.5;
    if (x < left + 2 * LETTERS || x > right - 2 * LETTERS) continue;
    context.beginPath();
    context.moveTo(x, bottom);
    context.lineTo(x, bottom + 4);
    context.stroke();
    const text = when(time);
    context.fillText(withDays ? text.slice(5, 16) : text.slice(11), x, bottom + 7);
  }
}

export function Frame(props: Props) {
  const { from, to, scale, columns, height, draw, read, stops, cursor, onCursor, onZoom } = props;
  const { left = LEFT } = props;
  const box = useRef<HTMLDivElement>(null);
  const base = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  const [width, theme] = useSurroundings(box);
  const [value, setValue] = useState<number | null>(null);
  const [anchor, setAnchor] = useState<number | null>(null);
  const [isHere, setHere] = useState(false);
  const help = useId();

  const inner = { width: Math.max(width - left - RIGHT, 1), height: height - TOP - BOTTOM };
  const geometry: Geometry = {
    width,
    height,
    x: (seconds) => left + ((seconds - from) / (to - from)) * inner.width,
    y: (of) => TOP + (1 - position(scale, of)) * inner.height,
  };
  const timeAt = (x: number) => {
    const share = Math.min(Math.max((x - left) / inner.width, 0), 1);
    return from + share * (to - from);
  };
  const columnAt = (seconds: number) => {
    const found = columns.findIndex((column) => seconds < column.to);
    return found < 0 ? columns.length - 1 : found;
  };
  const column = cursor === null || columns.length === 0 ? -1 : columnAt(cursor);

  useEffect(() => {
    if (width === 0) return;
    const context = prepare(base.current!, width, height);
    const of = colours(box.current!);
    axes(context, geometry, props, of);
    context.save();
    context.beginPath();
    context.rect(left, TOP, inner.width, inner.height);
    context.clip();
    draw(context, geometry, of);
    context.restore();
  }, [width, height, theme, draw, from, to, scale.min, scale.max, scale.kind]);

  useEffect(() => {
    if (width === 0) return;
    const context = prepare(over.current!, width, height);
    const of = colours(box.current!);
    if (anchor !== null && cursor !== null) {
      const [a, b] = [geometry.x(anchor), geometry.x(cursor)];
      context.fillStyle = of.accent;
      context.globalAlpha = 0.2;
      context.fillRect(Math.min(a, b), TOP, Math.abs(b - a), inner.height);
      context.globalAlpha = 1;
    }
    if (column < 0) return;
    const at = columns[column]!;
    const [a, b] = [Math.max(geometry.x(at.from), left), geometry.x(at.to)];
    context.strokeStyle = of.text;
    context.lineWidth = 1;
    context.strokeRect(Math.round(a) - 0.5, TOP, Math.max(b - a, 1) + 1, inner.height);
    if (value !== null && isHere) {
      const y = Math.round(geometry.y(value)) + 0.5;
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(left + inner.width, y);
      context.stroke();
    }
  }, [width, height, theme, cursor, value, anchor, isHere, from, to, columns]);

  const zoom = (a: number, b: number) => {
    setAnchor(null);
    const [first, last] = [Math.min(a, b), Math.max(a, b)];
    const [left, right] = [columns[columnAt(first)], columns[columnAt(last)]];
    if (left && right) onZoom?.(left.from, right.to);
  };
  const place = (event: PointerEvent) => {
    const area = over.current!.getBoundingClientRect();
    onCursor(timeAt(event.clientX - area.left));
    const share = 1 - (event.clientY - area.top - TOP) / inner.height;
    setValue(share >= 0 && share <= 1 ? valueAt(scale, share) : null);
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0 || !onZoom) return;
    over.current!.setPointerCapture(event.pointerId);
    const area = over.current!.getBoundingClientRect();
    setAnchor(timeAt(event.clientX - area.left));
    place(event);
  };
  const onPointerUp = (event: PointerEvent) => {
    if (anchor === null) return;
    const area = over.current!.getBoundingClientRect();
    const end = timeAt(event.clientX - area.left);
    const isDrag = Math.abs(geometry.x(end) - geometry.x(anchor)) > 6;
    isDrag ? zoom(anchor, end) : setAnchor(null);
  };

  const step = (by: number, extend: boolean) => {
    const start = column < 0 ? (by > 0 ? -1 : columns.length) : column;
    const next = columns[Math.min(Math.max(start + by, 0), columns.length - 1)];
    if (!next) return;
    const middle = (of: Column) => (Math.max(of.from, from) + Math.min(of.to, to)) / 2;
    if (extend && anchor === null && column >= 0) setAnchor(middle(columns[column]!));
    if (!extend) setAnchor(null);
    onCursor(middle(next));
  };
  const climb = (by: number) => {
    if (!stops?.length) return;
    const at = value === null ? -1 : stops.findIndex((stop) => stop >= value * 0.999999);
    const start = at < 0 ? (by > 0 ? -1 : stops.length) : at;
    setValue(stops[Math.min(Math.max(start + by, 0), stops.length - 1)]!);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const far = Math.max(1, Math.round(columns.length / 10));
    const actions: Record<string, () => void> = {
      ArrowLeft: () => step(-1, event.shiftKey),
      ArrowRight: () => step(1, event.shiftKey),
      PageUp: () => step(-far, event.shiftKey),
      PageDown: () => step(far, event.shiftKey),
      Home: () => step(-columns.length, event.shiftKey),
      End: () => step(columns.length, event.shiftKey),
      ArrowUp: () => climb(1),
      ArrowDown: () => climb(-1),
      Escape: () => {
        setAnchor(null);
        setValue(null);
        onCursor(null);
      },
      Enter: () => anchor !== null && cursor !== null && zoom(anchor, cursor),
      "-": () => onZoom?.(from - (to - from) / 2, to + (to - from) / 2),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setHere(true);
    action();
  };

  const text = column < 0 ? "" : read(column, isHere ? value : null);
  return (
    <ChartFigure {...props} range={{ from, to }}>
      <figcaption>{props.title}</figcaption>
      {props.beside}
      <div
        class="plot"
        ref={box}
        style={{ height: `${height}px` }}
        tabIndex={0}
        role="application"
        aria-roledescription="chart"
        aria-label={props.label}
        aria-describedby={help}
        onKeyDown={onKeyDown}
        onFocus={() => setHere(true)}
        onBlur={() => setHere(false)}
      >
        <canvas ref={base} aria-hidden="true" />
        <canvas
          ref={over}
          aria-hidden="true"
          class={onZoom ? "zooms" : undefined}
          onPointerDown={onPointerDown}
          onPointerMove={(event) => {
            setHere(true);
            place(event);
          }}
          onPointerUp={onPointerUp}
          onPointerCancel={() => setAnchor(null)}
          onPointerLeave={() => {
            if (anchor !== null) return;
            setHere(false);
            onCursor(null);
          }}
        />
      </div>
      <p id={help} class="unseen">
        Left and right move the cursor{stops ? `, up and down ${props.moves ?? "its latency"}` : ""}.
        {onZoom ? " With shift they select, enter zooms in, minus zooms out." : ""} The table below
        has the same figures.
      </p>
      <output class="readout" aria-live="polite">
        {text || "\u00a0"}
      </output>
      {props.children}
    </ChartFigure>
  );
}
