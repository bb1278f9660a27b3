// The token that changes need. It is kept in this tab's memory, is sent in the header of changes
// only, and is gone when the tab is closed or reloaded.

import { createContext } from "preact";
import { useContext, useId, useState } from "preact/hooks";
import { change } from "./api";

interface Token {
  value: string;
  set: (value: string) => void;
  send: (method: "POST" | "DELETE", url: string, body?: unknown) => Promise<unknown>;
}

const Context = createContext<Token>({ value: "", set: () => {}, send: async () => {} });
export const useToken = (): Token => useContext(Context);
export const TokenContext = Context;

export function useTokenState(): Token {
  const [value, set] = useState("");
  return { value, set, send: (method, url, body) => change(method, url, value, body) };
}

/** The form that unlocks changes with the token. */
export function Change({ what }: { what: string }) {
  const token = useToken();
  const id = useId();
  const onSubmit = (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    token.set(String(new FormData(form).get("token") ?? "").trim());
    form.reset();
  };
  return (
    <form class="token" onSubmit={onSubmit}>
      <label for={id}>{what}, enter the token from http.token_file</label>
      <input id={id} name="token" type="password" autocomplete="off" required />
      <button>Unlock</button>
      <span class="muted">Kept in this tab only.</span>
    </form>
  );
}
