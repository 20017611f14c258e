import { formatBytes } from "@/shared/format";
import type { AdapterFiles } from "./picker";
import styles from "./ChosenFiles.module.css";

export function ChosenFiles({ files: { files, ignored } }: { files: AdapterFiles }) {
  return (
    <section className={styles.chosen} aria-label="Chosen files">
      <ul>
        {files.map((file) => (
          <li key={file.name}>
            <code>{file.name}</code>
            <span>{formatBytes(file.size)}</span>
          </li>
        ))}
      </ul>
      {ignored > 0 && (
        <p className={styles.ignored}>
          {ignored === 1 ? "One other file is" : `${ignored} other files are`} not needed and will
          not be sent.
        </p>
      )}
    </section>
  );
}
