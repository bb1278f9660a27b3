// Bundles the page into `dist/`, which is committed and built into the aggregator. The same sources
// and the same lock file make the same bytes; `--check` compares them and changes nothing.

import { readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const BYTES_MAX = 60_000;
const { outputFiles } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { page: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
});
const style = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { page: "src/page.css" },
  outdir: "dist",
  minify: true,
  write: false,
  charset: "utf8",
});
const html = await readFile(new URL("src/index.html", import.meta.url));
const files = new Map([
  ["index.html", html],
  ["page.js", outputFiles[0].contents],
  ["page.css", style.outputFiles[0].contents],
]);

const { gzipSync } = await import("node:zlib");
let total = 0;
let differs = false;
for (const [name, bytes] of files) {
  const file = new URL(`dist/${name}`, import.meta.url);
  const compressed = gzipSync(bytes, { level: 9 }).length;
  total += compressed;
  console.log(`${name}: ${bytes.length} bytes, ${compressed} compressed`);
  if (process.argv.includes("--check")) {
    const committed = await readFile(file).catch(() => Buffer.alloc(0));
    if (!committed.equals(bytes)) {
      console.error(`${name} is not what the sources make: run npm ci && npm run build`);
      differs = true;
    }
  } else {
    await writeFile(file, bytes);
  }
}
console.log(`all: ${total} bytes compressed of ${BYTES_MAX}`);
process.exit(differs || total > BYTES_MAX ? 1 : 0);
