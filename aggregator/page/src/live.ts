// The stream of pulses, one a second, for all views together. A hidden tab closes it. After a
// failure it is reopened after a pause that doubles; each attempt also makes the views retry, so
// that a page behind a proxy that blocks the stream is slow, and not dead.

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Freshness, Severity } from "./model";

export interface Pulse extends Freshness {
  at_seconds: number;
  ready: boolean;
  broker: string;
  firing: number;
  firing_severity: Severity | null;
  pending: number;
  changed_at_seconds: number | null;
}

export interface Live {
  state: "connecting" | "live" | "lost" | "paused";
  pulse?: Pulse;
  /** Grows by one with each pulse, and with each attempt without a stream. */
  tick: number;
}

const PAUSE_MIN = 1_000;
const PAUSE_MAX = 30_000;
/** A stream that is silent for this long is blocked between the aggregator and the page. */
const SILENCE_MAX = 10_000;

export const LiveContext = createContext<Live>({ state: "connecting", tick: 0 });
export const useLive = (): Live => useContext(LiveContext);

/** Keeps the stream open while the tab is visible and not paused. `onPulse` must not change. */
export function useStream(paused: boolean, onPulse: (pulse: Pulse) => void): Live {
  const [live, setLive] = useState<Live>({ state: "connecting", tick: 0 });
  useEffect(() => {
    let source: EventSource | undefined;
    let timer = 0;
    let pause = PAUSE_MIN;

    const close = () => {
      clearTimeout(timer);
      source?.close();
      source = undefined;
    };
    const lose = () => {
      close();
      setLive((old) => ({ ...old, state: "lost", tick: old.tick + 1 }));
      // Pages that lost the same aggregator do not come back at the same moment.
      timer = window.setTimeout(open, pause * (0.75 + Math.random() / 2));
      pause = Math.min(pause * 2, PAUSE_MAX);
    };
    const open = () => {
      close();
      timer = window.setTimeout(lose, SILENCE_MAX);
      source = new EventSource("api/v1/stream");
      source.onerror = lose;
      source.addEventListener("pulse", (event) => {
        const pulse = JSON.parse((event as MessageEvent<string>).data) as Pulse;
        onPulse(pulse);
        pause = PAUSE_MIN;
        clearTimeout(timer);
        timer = window.setTimeout(lose, SILENCE_MAX);
        setLive((old) => ({ state: "live", pulse, tick: old.tick + 1 }));
      });
    };
    const onVisibility = () => {
      if (document.hidden || paused) {
        close();
        setLive((old) => ({ ...old, state: "paused" }));
      } else {
        open();
      }
    };
    onVisibility();
    document.addEventListener("visibilitychange", onVisibility);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      close();
    };
  }, [paused]);
  return live;
}
