import { useState } from "react";
import { CodeBlock } from "@/shared/ui/CodeBlock";
import { curlSnippet, pythonSnippet } from "./snippets";
import styles from "./HowToCall.module.css";

const WAYS = { curl: curlSnippet, "Python (openai)": pythonSnippet } as const;
type Way = keyof typeof WAYS;
const TITLES: Record<Way, string> = { curl: "Shell", "Python (openai)": "Python" };
const NAMES = Object.keys(WAYS) as Way[];

export function HowToCall({ origin, model }: { origin: string; model: string }) {
  const [way, setWay] = useState<Way>("curl");
  return (
    <div className={styles.ways}>
      <div role="group" aria-label="Client" className={styles.choice}>
        {NAMES.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={name === way}
            onClick={() => {
              setWay(name);
            }}
          >
            {name}
          </button>
        ))}
      </div>
      <CodeBlock code={WAYS[way](origin, model)} title={TITLES[way]} />
      <p className={styles.note}>
        Put a key of your tenant into <code>LORAPLEX_API_KEY</code> first. Any OpenAI client works:
        only the base URL and the model name differ.
      </p>
    </div>
  );
}
