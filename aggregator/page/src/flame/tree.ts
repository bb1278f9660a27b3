// The tree of a flame graph (`flame.json`): where each function is drawn, which of them a search
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

/** Whether a function is what the reader searches, in lower case. */
export const matches = ({ name, file }: FlameNode, wanted: string): boolean =>
  wanted !== "" && `${name} ${file}`.toLowerCase().includes(wanted);

/** The share of all that is in functions found; what is below one of them counts once. */
export function shareFound(frames: Frame[], found: Set<Frame>): number {
  const isBelow = (frame: Frame): boolean =>
    frame.above !== null && (found.has(frame.above) || isBelow(frame.above));
  return frames
    .filter((frame) => found.has(frame) && !isBelow(frame))
    .reduce((sum, frame) => sum + frame.width, 0);
}

/** The values of a function wherever it is; of a recursion the outermost counts. */
export interface FunctionRow {
  name: string;
  file: string;
  self: number;
  total: number;
  selfDelta: number;
  totalDelta: number;
}

/** Functions with the largest own value first, or the largest own difference. */
export function functions(root: FlameNode): FunctionRow[] {
  const rows = new Map<string, FunctionRow>();
  const open = new Set<string>();
  const visit = (node: FlameNode) => {
    const key = `${node.name}\n${node.file}`;
    const empty = { name: node.name, file: node.file, self: 0, total: 0 };
    const row = rows.get(key) ?? { ...empty, selfDelta: 0, totalDelta: 0 };
    rows.set(key, row);
    const below = node.children.reduce((sum, child) => sum + (child.delta ?? 0), 0);
    row.self += node.self;
    row.selfDelta += (node.delta ?? 0) - below;
    const isOutermost = !open.has(key);
    if (isOutermost) {
      row.total += node.value;
      row.totalDelta += node.delta ?? 0;
      open.add(key);
    }
    node.children.forEach(visit);
    if (isOutermost) open.delete(key);
  };
  root.children.forEach(visit);
  const isDifference = root.delta !== undefined;
  const size = (row: FunctionRow) => (isDifference ? Math.abs(row.selfDelta) : row.self);
  const whole = (row: FunctionRow) => (isDifference ? Math.abs(row.totalDelta) : row.total);
  return [...rows.values()].sort((a, b) => size(b) - size(a) || whole(b) - whole(a));
}
