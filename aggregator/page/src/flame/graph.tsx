// The flame graph, or its reflection with callers on top, the icicle. A click or Enter zooms,
// Escape shows all again, arrow keys move between functions. Each function is a picture of its own within
// the picture, so that its name is cut off at its width, whatever the width of the window. Of a
// large tree the widest functions are drawn; to zoom in draws those within.

import { useMemo, useRef, useState } from "preact/hooks";
import { count } from "../units";
import { type Colour, colourOf } from "./colour";
import { type Frame, location } from "./tree";

const ROW = 18;
/** A function narrower than this share of the picture is not drawn: less than a pixel. */
const WIDTH_MIN = 0.0005;
/** Functions that are drawn at once: a slow machine draws them in a tenth of a second. */
const DRAWN_MAX = 1_000;

const percent = (share: number) => `${share * 100}%`;

interface GraphProps {
  frames: Frame[];
  found: Set<Frame>;
  label: string;
  figures: (frame: Frame) => string;
  colour: Colour;
  isIcicle: boolean;
}

export function Graph({ frames, found, label, figures, colour, isIcicle }: GraphProps) {
  const root = frames[0]!;
  const [chosen, setZoomed] = useState(root);
  const [focused, setCurrent] = useState(root);
  const picture = useRef<SVGSVGElement>(null);
  // What was chosen in a graph that is shown no more is no part of this one.
  const [zoomed, current] = [chosen, focused].map((of) => (frames[of.number] === of ? of : root)) as
    [Frame, Frame];

  const deltaMax = useMemo(
    () => frames.reduce((max, { node }) => Math.max(max, Math.abs(node.delta ?? 0)), 0),
    [frames],
  );
  const callers = new Set<Frame>();
  for (let of = zoomed.above; of; of = of.above) callers.add(of);
  // The zoomed function has the whole width, and so do its callers, which stay above it.
  const visible = frames.flatMap((frame) => {
    if (callers.has(frame)) return [{ frame, x: 0, width: 1 }];
    const x = (frame.x - zoomed.x) / zoomed.width;
    const width = frame.width / zoomed.width;
    const isBelow = frame.depth >= zoomed.depth && x > -1e-9 && x < 1 - 1e-9;
    return isBelow && width >= WIDTH_MIN ? [{ frame, x, width }] : [];
  });
  // No function is wider than its caller, so the widest form a tree.
  const widths = visible.map((of) => of.width).sort((a, b) => b - a);
  const narrowest = widths[DRAWN_MAX] ?? 0;
  const shown = visible.filter((of) => of.width > narrowest);
  const rows = shown.reduce((max, { frame }) => Math.max(max, frame.depth), 0) + 1;
  const top = (depth: number) => (isIcicle ? depth : rows - 1 - depth) * ROW;
  // The one that the Tab key reaches is one that is drawn.
  const reached = shown.some((of) => of.frame === current) ? current : zoomed;

  const move = (to: Frame | null | undefined) =>
    to && picture.current?.querySelector<SVGGElement>(`#frame-${to.number}`)?.focus();
  const zoom = (to: Frame) => {
    move(to);
    setZoomed(to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const beside = current.above?.below ?? [];
    const at = beside.indexOf(current);
    const actions: Record<string, () => void> = {
      [isIcicle ? "ArrowUp" : "ArrowDown"]: () => move(current.above),
      [isIcicle ? "ArrowDown" : "ArrowUp"]: () => move(current.below[0]),
      ArrowLeft: () => move(beside[at - 1]),
      ArrowRight: () => move(beside[at + 1]),
      Enter: () => zoom(current),
      Escape: () => zoom(root),
    };
    const act = actions[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };

  return (
    <>
      <svg
        ref={picture}
        class="flame"
        role="tree"
        aria-label={label}
        width="100%"
        height={rows * ROW}
        onKeyDown={onKeyDown}
      >
        {shown.map(({ frame, x, width }) => (
          <g
            key={frame.number}
            id={`frame-${frame.number}`}
            class={`frame${found.has(frame) ? " found" : ""}${callers.has(frame) ? " above" : ""}`}
            role="treeitem"
            tabIndex={frame === reached ? 0 : -1}
            aria-level={frame.depth + 1}
            aria-label={`${location(frame.node)}: ${figures(frame)}`}
            onClick={() => zoom(frame)}
            onFocus={() => setCurrent(frame)}
          >
            <title>{`${location(frame.node)}\n${figures(frame)}`}</title>
            <svg x={percent(x)} y={top(frame.depth)} width={percent(width)} height={ROW - 1}>
              <rect width="100%" height="100%" fill={colourOf(frame, colour, deltaMax)} />
              {width > 0.02 && (
                <text x="3" y="13">
                  {location(frame.node)}
                </text>
              )}
            </svg>
          </g>
        ))}
      </svg>
      <p class="muted readout" aria-live="polite">
        {location(current.node)}: {figures(current)}
      </p>
      {shown.length < visible.length && (
        <p class="muted">
          {count(visible.length - shown.length)} narrower functions are drawn where you zoom in.
        </p>
      )}
      {root.node.delta !== undefined && (
        <p class="muted">
          <span class="swatch" /> the culprit has more <span class="swatch less" /> it has less; the
          width is the mean of both.
        </p>
      )}
    </>
  );
}
