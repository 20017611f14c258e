import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const gateway = process.env.LORAPLEX_GATEWAY ?? "http://127.0.0.1:8000";
const proxy = Object.fromEntries(
  ["/api", "/v1", "/healthz", "/readyz"].map((path) => [path, { target: gateway }]),
);

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  // The gateway's content security policy allows its own origin only: nothing may be inlined.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy },
  preview: { proxy },
  test: {
    environment: "jsdom",
    setupFiles: ["src/testing/setup.ts"],
    css: false,
    isolate: false, // tests leave nothing behind: globals are unstubbed, pages unmounted
    testTimeout: 30_000,
    restoreMocks: true,
    unstubGlobals: true,
  },
});
