// The state of the page is its query: view, range, node, operation, selection. So each link, also
// that of a notification, opens what it is about, and the browser's own buttons go back and forth.

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";

export type Params = Readonly<Record<string, string>>;
type Change = Record<string, string | number | undefined>;

const read = (): Params => Object.fromEntries(new URLSearchParams(location.search));

/** A link to another view; parameters without a value are left out. */
export function href(params: Change): string {
  const pairs = Object.entries(params).filter(([, value]) => value !== undefined && value !== "");
  return `?${new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]))}`;
}

export function go(params: Change, replace = false): void {
  const url = href(params);
  if (url === location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
}

export interface Url {
  params: Params;
  /** Changes some parameters of this view. */
  set: (change: Change, replace?: boolean) => void;
}

export const UrlContext = createContext<Url>({ params: {}, set: () => {} });
export const useUrl = (): Url => useContext(UrlContext);

/** The parameters, which follow the address bar; links within the page load nothing. */
export function useAddress(): Url {
  const [params, setParams] = useState(read);
  useEffect(() => {
    const follow = () => setParams(read());
    const onClick = (event: MouseEvent) => {
      const link = (event.target as Element).closest?.("a");
      const to = link?.getAttribute("href");
      const plain = !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0;
      if (!to?.startsWith("?") || link?.target || !plain) return;
      event.preventDefault();
      if (to !== location.search) history.pushState(null, "", to);
      follow();
      scrollTo(0, 0);
      document.querySelector<HTMLElement>("h1")?.focus();
    };
    addEventListener("popstate", follow);
    document.addEventListener("click", onClick);
    return () => {
      removeEventListener("popstate", follow);
      document.removeEventListener("click", onClick);
    };
  }, []);
  return { params, set: (change, replace) => go({ ...read(), ...change }, replace) };
}
