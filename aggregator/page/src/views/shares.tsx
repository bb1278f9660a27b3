// Where the time of a run goes: the classes of each step as one bar, and what is too much.

import { path, useData } from "../api";
import type { Bottlenecks, ClassShare, CycleShares } from "../model";
import { Problem, State, Table, To } from "../parts";
import { percent, span } from "../units";

/** The time of a run by class, and its bottlenecks. */
export function SharesOfRun({ run }: { run: string }) {
  const { data, error } = useData<Bottlenecks>(path("api/v1/bottlenecks", { run }), 30);
  if (!data) return error ? <Problem error={error} what="Where the time goes" /> : null;
  const shown = data.bottlenecks.filter((of) => of.state !== "within");
  return (
    <>
      <h2>Where the time goes</h2>
      {data.cycles.map((cycle) => (
        <Cycle key={cycle.operation} of={cycle} />
      ))}
      {data.cycles.length === 0 && (
        <p class="muted">No step has phases with a class, so its time is not divided.</p>
      )}
      {shown.length > 0 && (
        <Table
          caption={`Bottlenecks of ${run}`}
          numbers={5}
          head={["bottleneck", "severity", "of", "evidence", "runbook"]}
          rows={shown.map((of) => [
            of.rule,
            <State of={of.severity ?? of.state} />,
            of.cycle ?? of.node ?? "–",
            of.evidence,
            <To view="runbook" section="bottlenecks">
              runbook
            </To>,
          ])}
        />
      )}
    </>
  );
}

function Cycle({ of }: { of: CycleShares }) {
  const words = of.classes.map((one) => `${one.class} ${percent(one.share)}`).join(", ");
  return (
    <figure class="shares">
      <figcaption>
        {of.operation}, {span(of.seconds)} in all{of.parallel && ", threads side by side"}: {words}
      </figcaption>
      <Bar of={of.classes} label={`Time of ${of.operation}: ${words}`} />
    </figure>
  );
}

/** Each class as long as its share; the caption has the figures. */
function Bar({ of, label }: { of: ClassShare[]; label: string }) {
  const all = of.reduce((sum, one) => sum + (one.share ?? 0), 0) || 1;
  let from = 0;
  const parts = of.map((one, n) => {
    const width = (100 * (one.share ?? 0)) / all;
    from += width;
    return { name: one.class, width, x: from - width, series: (n % 5) + 1 };
  });
  return (
    <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={label}>
      {parts.map(({ name, width, x, series }) => (
        <rect key={name} x={x} width={width} height="4" class={`series-${series}`}>
          <title>{name}</title>
        </rect>
      ))}
    </svg>
  );
}
