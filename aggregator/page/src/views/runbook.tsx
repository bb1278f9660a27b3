// The runbook that the aggregator serves, Markdown of a few forms: headings, paragraphs, lists,
// tables and code. It becomes elements, never markup.

import type { ComponentChildren } from "preact";
import { useData } from "../api";
import { Loading, Problem, Table, To } from "../parts";
import { useUrl } from "../url";

/** The section that a rule's link names, if it is in this runbook. */
export function sectionOf(runbook: string | null): string | null {
  const found = /(?:^#|RUNBOOK\.md#|[?&]view=runbook&section=)([\w-]+)$/.exec(runbook ?? "");
  return found?.[1] ?? null;
}

export function Runbook() {
  const { params } = useUrl();
  const { section } = params;
  const { data, error } = useData<string>("runbook", 0);
  if (!data) return error ? <Problem error={error} what="Runbook" /> : <Loading what="runbook" />;
  return (
    <>
      <h1 tabIndex={-1}>Runbook{section && `: ${section}`}</h1>
      {section && (
        <p class="fleet">
          <To view="runbook">Whole runbook</To>
          <To view="alerts" find={section}>
            Alerts of this rule
          </To>
        </p>
      )}
      <div class="prose">{section ? <Text of={cut(data, section)} /> : <Text of={data} />}</div>
    </>
  );
}

export function Section({ name }: { name: string }) {
  const { data, error } = useData<string>("runbook", 0);
  if (!data) return error ? <Problem error={error} what="Runbook" /> : <Loading what="runbook" />;
  const text = cut(data, name);
  return (
    <div class="prose">
      {text ? <Text of={text} /> : <p class="muted">The runbook has no section {name}.</p>}
    </div>
  );
}

/** From the heading of a rule to the next heading; rules of one kind share a section. */
function cut(text: string, name: string): string {
  const parts = text.split(/^(?=#{2,3} )/m);
  const isHead = (part: string) => part.split("\n", 1)[0]!.includes(`\`${name}\``);
  return (parts.find(isHead) ?? parts.find((part) => part.includes(`\`${name}\``)))?.trim() ?? "";
}

function Text({ of }: { of: string }) {
  return (
    <>
      {of.split(/\n{2,}/).map((block, n) => (
        <Block key={n} of={block} />
      ))}
    </>
  );
}

function Block({ of }: { of: string }) {
  const heading = /^(#{1,6}) (.*)/.exec(of);
  if (heading) {
    const rest = of.slice(heading[0].length).trim();
    const title = inline(heading[2]!);
    // The first heading of the file is the view's heading.
    const depth = heading[1]!.length;
    return (
      <>
        {depth === 2 && <h2>{title}</h2>}
        {depth > 2 && <h3>{title}</h3>}
        {rest && <Block of={rest} />}
      </>
    );
  }
  if (of.startsWith("```")) return <pre>{of.replace(/^```.*\n|\n?```$/g, "")}</pre>;
  if (of.startsWith("|")) return <Grid of={of} />;
  if (/^(-|\d+\.) /.test(of)) {
    const items = of.split(/\n(?=(?:-|\d+\.) )/).map((item) => item.replace(/^(-|\d+\.) /, ""));
    return (
      <ul>
        {items.map((item, n) => (
          <li key={n}>{inline(item)}</li>
        ))}
      </ul>
    );
  }
  return <p>{inline(of)}</p>;
}

function Grid({ of }: { of: string }) {
  const rows = of.split("\n").map((line) => line.replace(/^\||\|$/g, "").split("|"));
  const [head = [], , ...body] = rows.map((row) => row.map((cell) => inline(cell.trim())));
  const caption = `Table: ${of.split("\n", 1)[0]!.replace(/[|`*]/g, " ").trim()}`;
  return <Table caption={caption} head={head} rows={body} numbers={99} />;
}

/** Code, bold text and links; everything else is text. */
function inline(text: string): ComponentChildren[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))/).map((part, n) => {
    if (part.startsWith("`")) return <code key={n}>{part.slice(1, -1)}</code>;
    if (part.startsWith("**")) return <strong key={n}>{part.slice(2, -2)}</strong>;
    const [, name = "", to = ""] = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part) ?? [];
    const text = name.replaceAll("`", "");
    if (to.startsWith("#")) {
      return (
        <To key={n} view="runbook" section={to.slice(1)}>
          {text}
        </To>
      );
    }
    if (/^https?:\/\//.test(to)) {
      return (
        <a key={n} href={to} rel="noreferrer">
          {text}
        </a>
      );
    }
    return text || part;
  });
}
