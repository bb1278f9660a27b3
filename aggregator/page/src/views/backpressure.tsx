// Messages that wait to be sent or read, and the ledger as a balance that the reader can check.

import type { ComponentChildren } from "preact";
import { useData } from "../api";
import { useLive } from "../live";
import type { Backpressure as Page, Ledger } from "../model";
import { Count, Counted, Facts, Loading, Problem, Value, State, Table, To } from "../parts";
import { bytes, count, percent } from "../units";

export function Backpressure() {
  const { pulse } = useLive();
  const { data, error } = useData<Page>("api/v1/backpressure");
  if (!data) {
    return error ? <Problem error={error} what="Backpressure" /> : <Loading what="backpressure" />;
  }
  const { outboxes: all } = data;
  const isStale = pulse?.stale ?? false;
  return (
    <>
      <h1 tabIndex={-1}>Backpressure</h1>
      <Problem error={error} what="These figures are out of date" />
      <section>
        <h2>Ledger</h2>
        <Balance ledger={data.ledger} />
      </section>
      <section class={isStale ? "stale" : undefined}>
        <h2>Messages</h2>
        {isStale && <p class="since">○ no node reports: figures of outboxes are out of date</p>}
        <Facts
          of={[
            ["broker", <State of={data.broker} />],
            ...Object.entries(data.pending).map(([lane, n]): [string, ComponentChildren] => [
              `unread in the ${lane} lane`,
              <Count of={n} />,
            ]),
            ["waiting in outboxes", <Count of={all.depth} />],
            ["max depth of a node", <Count of={all.depth_max} />],
            ["max pressure", percent(all.pressure)],
            ["oldest waiting", <Value of={all.age_seconds} />],
            ["bytes waiting", bytes(all.bytes)],
            ["unconfirmed", <Count of={all.unconfirmed} />],
            ["rerouted", <Count of={all.rerouted} />],
            ["rate-limited", <Count of={all.rate_limited} />],
            ["merged before sending", <Count of={all.coalesced} />],
            ["resent", <Count of={all.retried} />],
            ["dropped", <Count of={all.dropped} />],
            ["refused by the broker", <Count of={all.refused} />],
            [
              "circuit breakers",
              Object.entries(data.breakers)
                .map(([state, n]) => `${count(n)} ${state.replace("_", " ")}`)
                .join(", "),
            ],
            ["nodes sending urgent messages only", <Count of={data.conservative} />],
          ]}
        />
        <Messages of={all} />
      </section>
      <section>
        <h2>Fullest outboxes</h2>
        <Table
          caption="Nodes with the fullest outboxes"
          numbers={3}
          head={[
            "node",
            "state",
            "breaker",
            "pressure",
            "depth",
            "max depth",
            "unconfirmed",
            "rerouted",
            "dropped",
            "oldest",
          ]}
          rows={data.nodes.map(({ node, presence, breaker, outbox }) => [
            <To view="node" node={node}>
              {node}
            </To>,
            <State of={presence} />,
            breaker ? <State of={breaker} /> : "none",
            percent(outbox.pressure),
            <Count of={outbox.depth} />,
            <Count of={outbox.depth_max} />,
            <Count of={outbox.unconfirmed} />,
            <Count of={outbox.rerouted} />,
            <Count of={outbox.dropped} />,
            <Value of={outbox.age_seconds} />,
          ])}
        />
      </section>
    </>
  );
}

interface Part {
  name: string;
  n: number;
  tone: string;
}

/** Samples recorded, the sum of their outcomes, and whether both are equal. */
export function Balance({ ledger }: { ledger: Ledger }) {
  const parts: Part[] = [
    { name: "merged", n: ledger.merged, tone: "good" },
    { name: "held", n: ledger.held, tone: "held" },
    ...Object.entries(ledger.lost).map(([reason, n]) => ({
      name: `lost: ${reason.replaceAll("_", " ")}`,
      n,
      tone: "bad",
    })),
    { name: "unread", n: ledger.unread, tone: "warn" },
    { name: "unaccounted for", n: ledger.unaccounted, tone: "bad" },
  ];
  return <Sum whole="recorded" total={ledger.recorded} parts={parts} noun="sample" />;
}

/** Messages of nodes as a balance of the same kind. */
function Messages({ of }: { of: Page["outboxes"] }) {
  const parts: Part[] = [
    { name: "published", n: of.published, tone: "good" },
    { name: "combined", n: of.combined, tone: "held" },
    { name: "merged before sending", n: of.coalesced, tone: "held" },
    { name: "waiting", n: of.messages, tone: "held" },
    { name: "dropped", n: of.dropped, tone: "bad" },
    { name: "refused", n: of.refused, tone: "bad" },
  ];
  return <Sum whole="created" total={of.attempted} parts={parts} noun="message" />;
}

interface SumProps {
  whole: string;
  total: number;
  parts: Part[];
  noun: string;
}

function Sum({ whole, total, parts, noun }: SumProps) {
  const sum = parts.reduce((sum, part) => sum + part.n, 0);
  const shown = parts.filter((part, n) => n === 0 || part.n > 0);
  const names = parts.filter((part, n) => n > 0 && part.n === 0).map((part) => part.name);
  const none = [names.slice(0, -1).join(", "), ...names.slice(-1)].filter(Boolean).join(" or ");
  let from = 0;
  return (
    <div class="balance">
      <svg viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" width="1000" height="14" />
        {shown.map(({ name, n, tone }) => {
          // A part above zero is visible, however small.
          const width = n > 0 ? Math.max((n / Math.max(total, 1)) * 1000, 4) : 0;
          const x = Math.min(from, 1000 - width);
          from += width;
          return <rect key={name} class={`part ${tone}`} x={x} width={width} height="14" />;
        })}
      </svg>
      <p class="equation">
        <span class="term">
          <Counted of={total} noun={noun} /> <span>{whole}</span>
        </span>
        {shown.map(({ name, n, tone }, index) => (
          <>
            <span aria-hidden="true">{index === 0 ? "=" : "+"}</span>
            <span class={`term ${tone}`} key={name}>
              <Count of={n} /> <span>{name}</span>
            </span>
          </>
        ))}
      </p>
      <p class="muted">
        {sum === total ? (
          <>
            <span class="good">✓</span> balances
          </>
        ) : (
          <span class="bad">
            ✗ differs by <Count of={total - sum} />
          </span>
        )}
        {none && `${sum === total ? ":" : ";"} nothing ${none}`}
      </p>
    </div>
  );
}
