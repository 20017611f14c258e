import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

const namedEffects = {
  name: "react",
  importNames: ["useEffect", "useLayoutEffect"],
  message:
    "An effect names the outside system it follows, in a disable comment, or does not exist.",
};

/** Imports run one way: shared, then features, then app. */
const imports = (files, ...patterns) => ({
  files,
  rules: { "no-restricted-imports": ["error", { paths: [namedEffects], patterns }] },
});

export default defineConfig(
  { ignores: ["dist", "src/shared/api/schema.d.ts"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  js.configs.recommended,
  reactHooks.configs.flat["recommended-latest"],
  {
    files: ["**/*.{ts,tsx}"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "@typescript-eslint/consistent-type-definitions": ["error", "type"],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // An event handler may start work that React does not wait for.
      "@typescript-eslint/no-misused-promises": [
        "error",
        { checksVoidReturn: { attributes: false } },
      ],
    },
  },
  imports(["src/app/**"]),
  imports(["src/shared/**"], {
    group: ["@/features/*", "@/app/*"],
    message: "shared knows no feature and no page.",
  }),
  imports(["src/features/**"], {
    group: ["@/app/*", "../*"],
    message: "Features know shared, and each other as @/features/<noun>/<file>.",
  }),
);
