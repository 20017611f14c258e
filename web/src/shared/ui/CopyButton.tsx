import { useState } from "react";
import { Button } from "./Button";

/** Copies `text`; says so, or says that the browser would not. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [outcome, setOutcome] = useState<"copied" | "refused" | null>(null);
  const copy = async () => {
    setOutcome((await copyText(text)) ? "copied" : "refused");
    setTimeout(() => {
      setOutcome(null);
    }, 2000);
  };
  return (
    <Button look="quiet" isSmall aria-label={`Copy ${what}`} onClick={() => void copy()}>
      <span aria-live="polite">
        {outcome === "copied" ? "Copied" : outcome === "refused" ? "Select and copy" : "Copy"}
      </span>
    </Button>
  );
}

/** The clipboard exists on https and on localhost only, and may be denied. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
