import { useState } from "react";
import type { Model } from "@/shared/api/types";
import { Notice } from "@/shared/ui/Notice";
import { Composer } from "./Composer";
import { Controls } from "./Controls";
import styles from "./Conversation.module.css";
import type { Sampling } from "./stream";
import { Transcript } from "./Transcript";
import { useConversation } from "./useConversation";

type Props = {
  models: Model[];
  model: string;
  asked: string | null;
  onModel: (model: string) => void;
};

const DEFAULT_SAMPLING: Sampling = { temperature: 0.7, maxTokens: 256 };

export function Conversation({ models, model, asked, onModel }: Props) {
  const [sampling, setSampling] = useState(DEFAULT_SAMPLING);
  const { entries, isStreaming, ask, stop, clear } = useConversation();

  return (
    <div className={styles.layout}>
      <section className={styles.talk} aria-label="Conversation">
        {asked !== null && asked !== model && (
          <Notice tone="warn" title={`${asked} cannot be called`}>
            It does not exist or is not ready, so {model} is chosen instead.
          </Notice>
        )}
        <Transcript entries={entries} model={model} />
        <Composer
          isStreaming={isStreaming}
          onAsk={(prompt) => void ask(prompt, model, sampling)}
          onStop={stop}
        />
      </section>
      <Controls
        models={models}
        model={model}
        sampling={sampling}
        canClear={entries.length > 0 && !isStreaming}
        onModel={onModel}
        onSampling={setSampling}
        onClear={clear}
      />
    </div>
  );
}
