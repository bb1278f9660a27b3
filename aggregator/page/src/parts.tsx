// Small pieces that views share.

import type { ComponentChildren } from "preact";
import { type Failure, now } from "./api";
import type { Alert, AlertState, Labels, Presence, Severity, Verdict } from "./model";
import { count, counted, format, latency, rawText, span, when } from "./units";
import { href } from "./url";

/** A link to another view. */
export function To({
  children,
  current,
  ...to
}: { children: ComponentChildren; current?: boolean } & Record<string, unknown>) {
  return (
    <a href={href(to as Record<string, string>)} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}

/** A whole number of an operation's unit, with its exact value. */
export const Raw = ({ operation, of }: { operation: string; of: number | null }) =>
  of === null ? <span>–</span> : <data value={String(of)}>{rawText(operation, of)}</data>;

/** Seconds, or a value of an operation. */
export const Value = ({
  operation,
  of,
}: {
  operation?: string;
  of: number | null | undefined;
}) =>
  of === null || of === undefined ? (
    <span>–</span>
  ) : (
    <data value={String(of)}>{operation ? format(operation)(of) : latency(of)}</data>
  );

export const Count = ({ of }: { of: number | string }) => (
  <data value={String(of)}>{count(of)}</data>
);

/** A count with its noun: `1 sample`. */
export const Counted = ({ of, noun }: { of: number; noun: string }) => (
  <data value={String(of)}>{counted(of, noun)}</data>
);

/** A confidence interval, which has no upper bound with few samples. */
export const Between = ({ low, high }: { low: ComponentChildren; high: ComponentChildren }) =>
  high ? (
    <>
      {low} to {high}
    </>
  ) : (
    <>at least {low}</>
  );

type Word = Verdict | AlertState | Presence | string;

/** Shape and word first, colour last: each state is known without colours. */
const SIGNS: Record<string, [string, string]> = {
  breach: ["▲", "bad"],
  firing: ["▲", "bad"],
  critical: ["▲", "bad"],
  open: ["▲", "bad"],
  disconnected: ["▲", "bad"],
  worse: ["▲", "bad"],
  high: ["▲", "bad"],
  failed: ["▲", "bad"],
  uncertain: ["◆", "warn"],
  pending: ["◆", "warn"],
  warning: ["◆", "warn"],
  medium: ["◆", "warn"],
  silent: ["◆", "warn"],
  core: ["◆", "warn"],
  torn: ["◆", "warn"],
  refused: ["◆", "warn"],
  expired: ["◆", "warn"],
  half_open: ["◆", "warn"],
  not_enough_data: ["○", "none"],
  not_comparable: ["○", "none"],
  insufficient: ["○", "none"],
  no_data: ["○", "none"],
  not_measured: ["○", "none"],
  left: ["○", "none"],
  no_end: ["○", "none"],
  inactive: ["○", "none"],
  info: ["○", "none"],
};

/** The colour of what fires. */
export const TONES: Record<Severity, string> = { critical: "bad", warning: "warn", info: "none" };

interface StateProps {
  of: Word;
  tone?: string;
  children?: ComponentChildren;
}

export function State({ of, tone, children }: StateProps) {
  const [sign, usual] = SIGNS[of] ?? ["●", "good"];
  return (
    <span class={`state ${tone ?? usual}`}>
      <span aria-hidden="true">{sign}</span> {of.replaceAll("_", " ")}
      {children}
    </span>
  );
}

/** The state of an alert: what fires is as bad as its severity. */
export const AlertBadge = ({ of }: { of: Pick<Alert, "state" | "severity"> }) => (
  <State of={of.state} tone={of.state === "firing" ? TONES[of.severity] : undefined} />
);

/** A time with its age: `13:05:10 (29 s)`. */
export const since = (seconds: number): string =>
  `${when(seconds, now())} (${span(Math.max(now() - seconds, 0))})`;

export function Problem({ error, what }: { error?: Error; what: string }) {
  if (!error) return null;
  const status = (error as Failure).status;
  const text = status
    ? error.message
    : "the aggregator does not answer; retrying";
  return (
    <p class="problem" role="alert">
      {what}: {text}
    </p>
  );
}

export const Loading = ({ what }: { what: string }) => (
  <p class="muted" aria-busy="true">
    Loading {what}…
  </p>
);

export const LabelList = ({ of }: { of: Labels }) => (
  <>
    {Object.entries(of).map(([key, value]) => (
      <span class="label" key={key}>
        {key}={value}
      </span>
    ))}
  </>
);

export const Ago = ({ at, now }: { at: number; now: number }) => (
  <span>{now - at < 2 ? "now" : `${span(now - at)} ago`}</span>
);

interface TableProps {
  caption: string;
  head: ComponentChildren[];
  rows: ComponentChildren[][];
  /** Columns from this one on are numbers. */
  numbers?: number;
  /** Of these, columns of words. */
  words?: number[];
}

export function Table({ caption, head, rows, numbers = 1, words = [] }: TableProps) {
  const kind = (n: number) => (n >= numbers && !words.includes(n) ? "number" : undefined);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {head.map((cell, n) => (
              <th key={n} scope="col" class={kind(n)}>
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, n) => (
            <tr key={n}>
              {row.map((cell, of) => (
                <td key={of} class={kind(of)}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The figures of a chart; made only when someone opens it. */
export function Figures({
  open,
  onOpen,
  ...table
}: TableProps & { open: boolean; onOpen: (open: boolean) => void }) {
  return (
    <details
      class="figures"
      open={open}
      onToggle={(event) => onOpen((event.currentTarget as HTMLDetailsElement).open)}
    >
      <summary>Table</summary>
      {open && <Table {...table} />}
    </details>
  );
}

/** Names with what belongs to them. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
