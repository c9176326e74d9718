import { defineConfig } from "vite";

// TensorBoard imports one module and calls its render(): one file with everything inside it, the style
// sheet included (it is imported as text), so that no second URL has to be found.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../tb_mindformers_plugin/static",
    emptyOutDir: true,
    target: "es2022",
    // Not vite's library mode, which leaves ES modules unminified.
    rolldownOptions: {
      input: "src/index.tsx",
      preserveEntrySignatures: "strict",
      output: { entryFileNames: "index.js", codeSplitting: false },
    },
  },
});
