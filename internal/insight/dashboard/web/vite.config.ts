import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// What is built depends on the sources and the lock file alone: a test builds it
// again and compares.
export default defineConfig({
  base: "/ui/",
  plugins: [
    svelte({
      compilerOptions: { cssHash: ({ hash, css }) => "w" + hash(css) },
    }),
  ],
  build: {
    outDir: process.env.WEIR_DIST ?? "../dist",
    emptyOutDir: true,
    target: "es2022",
    // A policy that has no room for data: beside images keeps every file a file.
    assetsInlineLimit: 0,
    // The texts of what is bundled: whoever has the page has them too.
    license: { fileName: "licenses.md" },
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    proxy: Object.fromEntries(
      ["/v1", "/rules", "/version", "/metrics", "/config", "/ui/session", "/ui/login", "/ui/logout"].map((path) => [
        path,
        process.env.WEIR_ADMIN ?? "http://127.0.0.1:6070",
      ]),
    ),
  },
});
