// The tree of a flame graph (`flame.json`): where each function is drawn, which share of it a search
// finds, and the sums of each function over the whole tree.

export interface FlameNode {
  name: string;
  file: string;
  line: number;
  /** In a difference the mean of both sides. */
  value: number;
  self: number;
  /** In a difference, how much more the culprit has. */
  delta?: number;
  children: FlameNode[];
}

export interface FlameGraph {
  kind: string;
  unit: string;
  root: FlameNode;
}

/** A node with its caller and its place among all, as shares of the root. */
export interface Frame {
  number: number;
  node: FlameNode;
  above: Frame | null;
  below: Frame[];
  depth: number;
  x: number;
  width: number;
}

/** All nodes, callers before what they call. */
export function place(root: FlameNode): Frame[] {
  const whole = root.value || 1;
  const frames: Frame[] = [];
  const add = (node: FlameNode, above: Frame | null, x: number) => {
    const depth = above ? above.depth + 1 : 0;
    const [number, width] = [frames.length, node.value / whole];
    const frame: Frame = { number, node, above, below: [], depth, x, width };
    frames.push(frame);
    above?.below.push(frame);
    let at = x;
    for (const child of node.children) {
      add(child, frame, at);
      at += child.value / whole;
    }
  };
  add(root, null, 0);
  return frames;
}

/** `function (file:line)` */
export const location = ({ name, file, line }: FlameNode): string =>
  file || line ? `${name} (${file}:${line})` : name;

/** The share of a frame that is in functions found; what is below one of them counts once. */
export const shareFound = (frame: Frame, found: Set<Frame>): number =>
  found.has(frame)
    ? frame.width
    : frame.below.reduce((sum, below) => sum + shareFound(below, found), 0);

/** The values of a function, wherever it is. */
export interface FunctionRow {
  name: string;
  file: string;
  self: number;
  /** With what it calls; a recursion counts once. */
  total: number;
  delta: number;
}

/** Functions with the largest own value first, or the largest own difference. */
export function functions(root: FlameNode): FunctionRow[] {
  // By name, then by file: to join both of 50 000 takes longer than all else.
  const rows = new Map<string, Map<string, FunctionRow>>();
  const callers = new Set<FunctionRow>();
  const visit = ({ name, file, value, self, delta = 0, children }: FlameNode) => {
    let files = rows.get(name);
    if (!files) rows.set(name, (files = new Map()));
    let row = files.get(file);
    if (!row) files.set(file, (row = { name, file, self: 0, total: 0, delta: 0 }));
    row.self += self;
    row.delta += children.reduce((left, child) => left - (child.delta ?? 0), delta);
    const isFirst = !callers.has(row);
    if (isFirst) row.total += value;
    callers.add(row);
    children.forEach(visit);
    if (isFirst) callers.delete(row);
  };
  root.children.forEach(visit);
  const size = (row: FunctionRow) => (root.delta === undefined ? row.self : Math.abs(row.delta));
  const all = [...rows.values()].flatMap((files) => [...files.values()]);
  return all.sort((a, b) => size(b) - size(a));
}
