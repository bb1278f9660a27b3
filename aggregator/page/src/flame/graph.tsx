// The flame graph, or its reflection with callers on top, the icicle. A click or Enter zooms,
// Escape shows all again, arrow keys move between functions. Each function is a picture of its own within
// the picture, so that its name is cut off at its width, whatever the width of the window. Of a
// large tree the widest functions are drawn; to zoom in draws those within.

import { useRef, useState } from "preact/hooks";
import { count } from "../units";
import { type Colour, colourOf } from "./colour";
import { type Frame, location } from "./tree";

const ROW = 18;
/** A function narrower than this share of the picture is not drawn: less than a pixel. */
const WIDTH_MIN = 0.0005;
/** One without room for its name has none. */
const NAMED_MIN = 0.02;
/** Functions that are drawn at once: a slow machine draws them in 50 ms. */
const DRAWN_MAX = 500;

const percent = (share: number) => `${share * 100}%`;

interface GraphProps {
  frames: Frame[];
  found: Set<Frame>;
  label: string;
  figures: (frame: Frame) => string;
  colour: Colour;
  deltaMax: number;
  isIcicle: boolean;
}

export function Graph(props: GraphProps) {
  const { frames, found, label, figures, colour, deltaMax, isIcicle } = props;
  const root = frames[0]!;
  const [chosen, setZoomed] = useState(root);
  const [focused, setCurrent] = useState(root);
  const picture = useRef<SVGSVGElement>(null);
  // What was chosen in a graph that is shown no more is no part of this one.
  const [zoomed, current] = [chosen, focused].map((of) => (frames[of.number] === of ? of : root)) as
    [Frame, Frame];

  const callers = new Set<Frame>();
  for (let of = zoomed.above; of; of = of.above) callers.add(of);
  // The zoomed function has the whole width, and so do its callers, which stay above it.
  const visible: { frame: Frame; x: number; width: number }[] = [];
  for (const frame of frames) {
    const width = frame.width / zoomed.width;
    if (width < WIDTH_MIN) continue;
    const x = (frame.x - zoomed.x) / zoomed.width;
    const isBelow = frame.depth >= zoomed.depth && x > -1e-9 && x < 1 - 1e-9;
    if (callers.has(frame)) visible.push({ frame, x: 0, width: 1 });
    else if (isBelow) visible.push({ frame, x, width });
  }
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
  // One listener for all: a thousand of them take as long as the picture.
  const frameOf = ({ target }: Event) =>
    frames[Number((target as Element).closest(".frame")?.id.slice("frame-".length))];
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
        onClick={(event) => zoom(frameOf(event) ?? zoomed)}
        onFocusIn={(event) => setCurrent(frameOf(event) ?? current)}
      >
        {shown.map(({ frame, x, width }) => {
          const place = {
            x: percent(x),
            y: top(frame.depth),
            width: percent(width),
            height: ROW - 1,
          };
          const fill = colourOf(frame, colour, deltaMax);
          return (
            <g
              key={frame.number}
              id={`frame-${frame.number}`}
              class={`frame${found.has(frame) ? " found" : ""}${callers.has(frame) ? " above" : ""}`}
              role="treeitem"
              tabindex={frame === reached ? 0 : -1}
              aria-level={frame.depth + 1}
            >
              <title>{`${location(frame.node)}\n${figures(frame)}`}</title>
              {width > NAMED_MIN ? (
                <svg {...place}>
                  <rect width="100%" height="100%" fill={fill} />
                  <text x="3" y="13">
                    {location(frame.node)}
                  </text>
                </svg>
              ) : (
                <rect {...place} fill={fill} />
              )}
            </g>
          );
        })}
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
