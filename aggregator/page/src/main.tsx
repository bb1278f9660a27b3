// Starts the page.

import { render } from "preact";
import { App } from "./app";

const root = document.getElementById("page")!;
root.textContent = "";
render(<App />, root);
