// The tree of a flame graph (`flame.json`): where each function is drawn, which share of it a search
// finds, and the sums of each function over the whole tree.

/** The tree in columns, each node before what it calls; nested objects take longer to read. */
export interface FlameGraph {
  kind: string;
  unit: string;
  isDifference: boolean;
  deltaMax: number;
  /** Each function's name, file, and colours by function and by module, once, ... */
  names: [string, string, string, string][];
  /** ... and which one a node is of. */
  name: number[];
  line: number[];
  depth: number[];
  /** In a difference the mean of both sides. */
  value: number[];
  own: number[];
  /** In a difference, how much more the culprit has. */
  delta: number[];
}

export interface FlameNode {
  name: string;
  file: string;
  line: number;
  value: number;
  self: number;
  delta?: number;
  colours: [string, string];
}

const NONE: Frame[] = [];

/** A node with its caller and its place among all, as shares of the root. */
export class Frame {
  below = NONE;
  /** Where what it calls ends so far. */
  end: number;

  constructor(
    private readonly of: FlameGraph,
    readonly number: number,
    readonly above: Frame | null,
    readonly depth: number,
    readonly x: number,
    readonly width: number,
  ) {
    this.end = x;
  }

  /** Of the few that are shown: to make one for each of 50 000 takes longer than to draw them. */
  get node(): FlameNode {
    const { of, number: n } = this;
    const [name, file, ...colours] = of.names[of.name[n]!]!;
    const [line, value, self] = [of.line[n]!, of.value[n]!, of.own[n]!];
    return { name, file, line, value, self, delta: of.delta[n], colours };
  }
}

/** All nodes, callers before what they call. */
export function place(of: FlameGraph): Frame[] {
  const whole = of.value[0] || 1;
  const callers: Frame[] = [];
  return of.depth.map((depth, number) => {
    const above = depth > 0 ? callers[depth - 1]! : null;
    const width = of.value[number]! / whole;
    const frame = new Frame(of, number, above, depth, above?.end ?? 0, width);
    if (above) {
      if (above.below === NONE) above.below = [frame];
      else above.below.push(frame);
      above.end += width;
    }
    callers[depth] = frame;
    return frame;
  });
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
export function functions(of: FlameGraph): FunctionRow[] {
  const none = { self: 0, total: 0, delta: 0 };
  const rows = of.names.map(([name, file]): FunctionRow => ({ name, file, ...none }));
  // The functions that call a node, and how often each of all is one of them.
  const callers: number[] = [];
  const calling = new Uint32Array(rows.length);
  for (let n = 1; n < of.name.length; n++) {
    const at = of.name[n]!;
    while (callers.length >= of.depth[n]!) calling[callers.pop()!]!--;
    const row = rows[at]!;
    row.self += of.own[n]!;
    if (calling[at] === 0) row.total += of.value[n]!;
    const delta = of.delta[n] ?? 0;
    row.delta += delta;
    if (callers.length > 0) rows[callers.at(-1)!]!.delta -= delta;
    calling[at]!++;
    callers.push(at);
  }
  const size = (row: FunctionRow) => (of.isDifference ? Math.abs(row.delta) : row.self);
  // The root is no function.
  return rows.filter((row) => row.total > 0).sort((a, b) => size(b) - size(a));
}
