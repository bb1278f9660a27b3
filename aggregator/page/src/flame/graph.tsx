// The flame graph: callers above what they call. A click or Enter zooms, Escape shows all again,
// arrow keys move between functions. Each function is a picture of its own within the picture, so
// that its name is cut off at its width, whatever the width of the window.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colour } from "./colour";
import { type Frame, type FlameGraph, location } from "./tree";

const ROW = 18;
/** A function narrower than this share of the picture is not drawn: less than a pixel. */
const WIDTH_MIN = 0.0005;

const percent = (share: number) => `${share * 100}%`;

interface GraphProps {
  graph: FlameGraph;
  frames: Frame[];
  found: Set<Frame>;
  label: string;
  figures: (frame: Frame) => string;
}

export function Graph({ graph, frames, found, label, figures }: GraphProps) {
  const root = frames[0]!;
  const [zoomed, setZoomed] = useState(root);
  const [current, setCurrent] = useState(root);
  const picture = useRef<SVGSVGElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    setZoomed(root);
    setCurrent(root);
  }, [root]);
  // Before the next key: a later focus would take back what that key moved to.
  useLayoutEffect(() => {
    if (moved.current) picture.current?.querySelector<SVGGElement>("[tabindex='0']")?.focus();
    moved.current = false;
  }, [current, zoomed]);

  const deltaMax = useMemo(
    () => frames.reduce((max, { node }) => Math.max(max, Math.abs(node.delta ?? 0)), 0),
    [frames],
  );
  const callers = new Set<Frame>();
  for (let of = zoomed.above; of; of = of.above) callers.add(of);
  // The zoomed function has the whole width, and so do its callers, which stay above it.
  const shown = frames.flatMap((frame) => {
    if (callers.has(frame)) return [{ frame, x: 0, width: 1 }];
    const x = (frame.x - zoomed.x) / zoomed.width;
    const width = frame.width / zoomed.width;
    const isBelow = frame.depth >= zoomed.depth && x > -1e-9 && x < 1 - 1e-9;
    return isBelow && width >= WIDTH_MIN ? [{ frame, x, width }] : [];
  });
  const rows = shown.reduce((max, { frame }) => Math.max(max, frame.depth), 0) + 1;
  const drawn = new Set(shown.map(({ frame }) => frame));

  const move = (to: Frame | null | undefined) => {
    if (!to || !drawn.has(to)) return;
    moved.current = true;
    setCurrent(to);
  };
  const zoom = (to: Frame) => {
    moved.current = true;
    setZoomed(to);
    setCurrent(to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const beside = current.above?.below.filter((frame) => drawn.has(frame)) ?? [];
    const at = beside.indexOf(current);
    const widest = () =>
      current.below.reduce<Frame | null>((a, b) => (a && a.width >= b.width ? a : b), null);
    const actions: Record<string, () => void> = {
      ArrowUp: () => move(current.above),
      ArrowDown: () => move(widest()),
      ArrowLeft: () => move(beside[at - 1]),
      ArrowRight: () => move(beside[at + 1]),
      Home: () => move(root),
      Enter: () => zoom(current),
      " ": () => zoom(current),
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
            class={`frame${found.has(frame) ? " found" : ""}${callers.has(frame) ? " above" : ""}`}
            role="treeitem"
            tabIndex={frame === current ? 0 : -1}
            aria-level={frame.depth + 1}
            aria-label={`${location(frame.node)}: ${figures(frame)}`}
            onClick={() => zoom(frame)}
            onFocus={() => setCurrent(frame)}
          >
            <title>{`${location(frame.node)}\n${figures(frame)}`}</title>
            <svg x={percent(x)} y={frame.depth * ROW} width={percent(width)} height={ROW - 1}>
              <rect width="100%" height="100%" fill={colour(frame.node, deltaMax)} />
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
      {graph.root.delta !== undefined && (
        <p class="muted">
          <span class="swatch" /> the culprit has more <span class="swatch less" /> it has less; the
          width is the mean of both.
        </p>
      )}
    </>
  );
}
