import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const ROOT = join(import.meta.dirname, "..");
const SOURCES = ["amends/report/style.css", "web/index.html", "web/package.json", "web/package-lock.json", "web/tsconfig.json", "web/vite.config.ts"];
const FOLDERS = ["web/public", "web/src"];

function inside(folder: string): string[] {
  const found = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return found.filter((file) => file.isFile()).map((file) => relative(ROOT, join(file.parentPath, file.name)));
}

/** source.sha256 says what the files were built from; a test compares it, and so does `sha256sum --check`. */
function sources(): Plugin {
  return {
    name: "sources",
    generateBundle() {
      const files = [...SOURCES, ...FOLDERS.flatMap(inside)].sort();
      const lines = files.map((file) => `${createHash("sha256").update(readFileSync(join(ROOT, file))).digest("hex")}  ${file}\n`);
      this.emitFile({ type: "asset", fileName: "source.sha256", source: lines.join("") });
    },
  };
}

// Relative addresses, so that the page works behind any path; the files of assets/ are named by what they hold.
export default defineConfig({
  base: "./",
  plugins: [sources()],
  build: { outDir: "../amends/web/static", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: false },
});
