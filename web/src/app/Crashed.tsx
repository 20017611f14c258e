import { Button } from "@/shared/ui/Button";
import { Notice } from "@/shared/ui/Notice";
import styles from "./Shell.module.css";

/** A mistake of ours while drawing a page. Nothing on the server has changed by it. */
export function Crashed() {
  return (
    <main className={styles.main}>
      <Notice
        tone="bad"
        title="This page broke"
        actions={
          <Button
            isSmall
            onClick={() => {
              window.location.reload();
            }}
          >
            Reload
          </Button>
        }
      >
        The portal made a mistake while drawing it. Your adapters are untouched.
      </Notice>
    </main>
  );
}
