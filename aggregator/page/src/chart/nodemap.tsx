// Nodes by time: a row for each node, in the order that is given, with links beside the rows.

import { useCallback, useMemo, useState } from "preact/hooks";
import { To } from "../parts";
import { when } from "../units";
import { BOTTOM, type Colours, Frame, type Geometry, LETTERS, TOP } from "./frame";
import { type Source, time } from "./files";
import { Ramp, colour } from "./heatmap";

const ROW = Math.round(1.6 * LETTERS);
/** Width of the names; longer ones are cut, and whole in their title. */
const NAMES = Math.round(Math.min(12 * LETTERS, innerWidth / 3));

interface Props extends Source {
  label: string;
  title: string;
  rows: { node: string; values: (number | null)[] }[];
  from: number;
  to: number;
  step: number;
  /** The value with the strongest colour. */
  most: number;
  format: (value: number | null) => string;
  onZoom: (from: number, to: number) => void;
}

export function NodeMap(props: Props) {
  const { label, title, rows, from, to, step, most, format, onZoom, json } = props;
  const [cursor, setCursor] = useState<number | null>(null);
  const columns = useMemo(
    () =>
      (rows[0]?.values ?? []).map((_, n) => ({
        from: from + n * step,
        to: Math.min(from + (n + 1) * step, to),
      })),
    [rows, from, to, step],
  );
  const draw = useCallback(
    (context: CanvasRenderingContext2D, at: Geometry, of: Colours) => {
      rows.forEach(({ values }, row) => {
        values.forEach((value, n) => {
          const column = columns[n];
          if (value === null || !column) return;
          const left = at.x(column.from);
          context.fillStyle = colour(Math.min(Math.max(value / most, 0), 1), of.isDark);
          // Half a pixel over: no seams beside each other; a line of the surface between rows.
          context.fillRect(left, at.y(rows.length - row), at.x(column.to) - left + 0.5, ROW - 1);
        });
      });
    },
    [rows, columns, most],
  );
  const read = (n: number, value: number | null) => {
    const of = columns[n]!;
    const time = `${when(of.from)} to ${when(of.to, of.from)}`;
    const row = value === null ? undefined : rows[rows.length - 1 - Math.floor(value)];
    return row ? `${time} · ${row.node}: ${format(row.values[n] ?? null)}` : time;
  };
  const table = () => ({
    head: ["from", "to", ...rows.map((row) => row.node)],
    rows: columns.map(({ from, to }, n) => [
      time(from),
      time(to),
      ...rows.map((row) => row.values[n]),
    ]),
  });
  const names = (
    <ol class="beside" style={{ width: `${NAMES}px` }}>
      {rows.map(({ node }) => (
        <li key={node} style={{ height: `${ROW}px`, lineHeight: `${ROW}px` }} title={node}>
          <To view="node" node={node}>
            {node}
          </To>
        </li>
      ))}
    </ol>
  );
  return (
    <Frame
      label={label}
      title={title}
      json={json}
      table={table}
      from={from}
      to={to}
      columns={columns}
      scale={{ kind: "linear", min: 0, max: rows.length }}
      format={() => ""}
      height={TOP + rows.length * ROW + BOTTOM}
      left={NAMES}
      beside={names}
      draw={draw}
      read={read}
      stops={rows.map((_, n) => n + 0.5)}
      moves="to another node"
      cursor={cursor}
      onCursor={setCursor}
      onZoom={onZoom}
    >
      <p class="legend">
        <span>{format(0)}</span>
        <Ramp />
        <span>{format(most)}</span>
      </p>
    </Frame>
  );
}
