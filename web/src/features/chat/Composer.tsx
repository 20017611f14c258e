import { useState, type KeyboardEvent, type SubmitEvent } from "react";
import { Button } from "@/shared/ui/Button";
import styles from "./Composer.module.css";

type Props = { isStreaming: boolean; onAsk: (prompt: string) => void; onStop: () => void };

export function Composer({ isStreaming, onAsk, onStop }: Props) {
  const [prompt, setPrompt] = useState("");

  const send = () => {
    if (isStreaming || prompt.trim() === "") return;
    onAsk(prompt);
    setPrompt("");
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    send();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // While an input method composes a character, Enter belongs to it.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form className={styles.composer} onSubmit={submit}>
      <textarea
        aria-label="Message"
        aria-describedby="composer-keys"
        placeholder="Write a message"
        rows={3}
        value={prompt}
        onKeyDown={onKeyDown}
        onChange={(event) => {
          setPrompt(event.target.value);
        }}
      />
      <div className={styles.row}>
        <span id="composer-keys" className={styles.keys}>
          Enter sends, Shift + Enter starts a line
        </span>
        {isStreaming ? (
          <Button key="stop" onClick={onStop}>
            Stop
          </Button>
        ) : (
          <Button key="send" look="primary" type="submit" disabled={prompt.trim() === ""}>
            Send
          </Button>
        )}
      </div>
    </form>
  );
}
