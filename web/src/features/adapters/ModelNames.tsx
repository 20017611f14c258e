import { CopyButton } from "@/shared/ui/CopyButton";
import type { ModelName } from "./names";
import styles from "./ModelNames.module.css";

export function ModelNames({ names }: { names: ModelName[] }) {
  return (
    <ul className={styles.names}>
      {names.map(({ model, meaning }) => (
        <li key={model}>
          <div className={styles.words}>
            <code>{model}</code>
            <p>{meaning}</p>
          </div>
          <CopyButton text={model} what={model} />
        </li>
      ))}
    </ul>
  );
}
