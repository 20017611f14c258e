import { useRef, useState, type DragEvent, type RefObject } from "react";
import { Button } from "@/shared/ui/Button";
import { chosenFiles, droppedFiles } from "./dropped";
import { CONFIG_NAME, WEIGHTS_NAME, type FoundFile } from "./picker";
import { classes } from "@/shared/ui/classes";
import styles from "./DropZone.module.css";

type Props = { onFiles: (files: FoundFile[]) => void; onUnreadable: (problem: string) => void };

/** Takes a dropped folder, files or an archive; two buttons do the same without a mouse. */
export function DropZone({ onFiles, onUnreadable }: Props) {
  const [isOver, setOver] = useState(false);
  const folder = useRef<HTMLInputElement>(null);
  const files = useRef<HTMLInputElement>(null);

  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    droppedFiles(event.dataTransfer).then(onFiles, () => {
      onUnreadable(
        "The browser could not read what was dropped. Choose the folder with the button instead.",
      );
    });
  };
  return (
    <div
      className={classes(styles.zone, isOver && styles.over)}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => {
        setOver(false);
      }}
      onDrop={drop}
    >
      <p className={styles.title}>Drop the adapter&rsquo;s folder here</p>
      <p className={styles.hint}>
        It holds <code>{CONFIG_NAME}</code> and <code>{WEIGHTS_NAME}</code>. Other files stay on
        your machine. A .zip or .tar.gz of it will do as well.
      </p>
      <div className={styles.buttons}>
        <Button onClick={() => folder.current?.click()}>Choose a folder</Button>
        <Button onClick={() => files.current?.click()}>Choose files</Button>
      </div>
      <HiddenInput label="Adapter folder" isFolder input={folder} onFiles={onFiles} />
      <HiddenInput label="Adapter files" input={files} onFiles={onFiles} />
    </div>
  );
}

type InputProps = {
  label: string;
  isFolder?: boolean;
  input: RefObject<HTMLInputElement | null>;
  onFiles: Props["onFiles"];
};

function HiddenInput({ label, isFolder = false, input, onFiles }: InputProps) {
  return (
    <input
      ref={input}
      type="file"
      hidden
      multiple
      aria-label={label}
      {...(isFolder && { webkitdirectory: "" })}
      onChange={(event) => {
        onFiles(chosenFiles(event.target.files));
        event.target.value = ""; // the same choice again is a choice again
      }}
    />
  );
}
