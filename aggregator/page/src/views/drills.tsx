// Reports of drills, which are files (`--json`). The reader opens one; it is read in the browser
// only.

import { useState } from "preact/hooks";
import { Facts, State, Table } from "../parts";
import { count, number, span } from "../units";

interface Outcome {
  name: string;
  expected: string;
  seen: string;
  took_seconds: number;
  verdict: "met" | "missed" | "skipped";
}

interface Report {
  drill: string;
  version: string;
  passed: boolean;
  seconds: number;
  expectations: Outcome[];
  notifications?: unknown[];
}

const isReport = (of: unknown): of is Report => {
  const report = of as Partial<Report> | null;
  return typeof report?.drill === "string" && Array.isArray(report.expectations);
};

export function Drills() {
  const [reports, setReports] = useState<Report[]>([]);
  const [problem, setProblem] = useState("");
  const onChange = async (event: Event) => {
    const files = [...((event.currentTarget as HTMLInputElement).files ?? [])];
    const found: Report[] = [];
    setProblem("");
    for (const file of files) {
      try {
        const read: unknown = JSON.parse(await file.text());
        if (!isReport(read)) throw new Error("no expectations");
        found.push(read);
      } catch (error) {
        setProblem(`${file.name} is not a drill report: ${(error as Error).message}`);
      }
    }
    if (found.length > 0) setReports(found);
  };
  return (
    <>
      <h1 tabIndex={-1}>Drills</h1>
      <p>
        <label>
          Open drill reports{" "}
          <input type="file" accept=".json,application/json" multiple onChange={onChange} />
        </label>{" "}
        <span class="muted">
          made by <code>drill-latency --json &gt; latency.json</code>. Files never leave this
          browser.
        </span>
      </p>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {reports.map((report) => (
        <One key={report.drill} report={report} />
      ))}
    </>
  );
}

const SIGN = { met: "within", missed: "breach", skipped: "no_data" };

function One({ report }: { report: Report }) {
  const { expectations: all } = report;
  const longest = Math.max(1e-3, ...all.map((of) => Number(of.took_seconds) || 0));
  const number_of = (verdict: string) => all.filter((of) => of.verdict === verdict).length;
  return (
    <section>
      <h2>
        {report.drill} <State of={report.passed ? "passed" : "failed"} />
      </h2>
      <Facts
        of={[
          ["duration", span(Number(report.seconds) || 0)],
          ["met", count(number_of("met"))],
          ["missed", count(number_of("missed"))],
          ["skipped", count(number_of("skipped"))],
          ["notifications", count(report.notifications?.length ?? 0)],
          ["version", report.version ?? "unknown"],
        ]}
      />
      <Table
        caption={`Expectations of ${report.drill}`}
        numbers={9}
        head={[
          "verdict",
          "expectation",
          "expected",
          "seen",
          `time after the fault, up to ${span(longest)}`,
          "seconds",
        ]}
        rows={all.map((of) => [
          <span class={SIGN[of.verdict] === "breach" ? "bad" : undefined}>{of.verdict}</span>,
          of.name,
          of.expected,
          of.seen,
          <svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
            <rect
              class={of.verdict === "missed" ? "during over" : "during"}
              width={((Number(of.took_seconds) || 0) / longest) * 100}
              height="10"
            />
          </svg>,
          number(Number(of.took_seconds) || 0),
        ])}
      />
    </section>
  );
}
