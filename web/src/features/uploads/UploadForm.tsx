import { useState, type SubmitEvent } from "react";
import type { ApiError } from "@/shared/api/problem";
import { Button } from "@/shared/ui/Button";
import { Field } from "@/shared/ui/Field";
import { Notice } from "@/shared/ui/Notice";
import { ChosenFiles } from "./ChosenFiles";
import { DropZone } from "./DropZone";
import { pickAdapter, suggestName, type AdapterFiles, type FoundFile } from "./picker";
import styles from "./UploadForm.module.css";

type Props = {
  name: string;
  files: AdapterFiles | null;
  error: ApiError | null;
  onName: (name: string) => void;
  onFiles: (files: AdapterFiles | null) => void;
  onSubmit: (name: string, files: File[]) => unknown;
};

export function UploadForm({ name, files, error, onName, onFiles, onSubmit }: Props) {
  const [problem, setProblem] = useState<string | null>(null);
  const [isNameMissing, setNameMissing] = useState(false);

  const take = (given: FoundFile[]) => {
    if (given.length === 0) return; // a dialog that was cancelled
    const picked = pickAdapter(given);
    setProblem("problem" in picked ? picked.problem : null);
    onFiles("found" in picked ? picked.found : null);
    if ("found" in picked && name === "") onName(suggestName(picked.found.folder));
  };
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const trimmed = name.trim();
    setNameMissing(trimmed === "");
    if (!files) setProblem("Choose the adapter’s files first.");
    if (files && trimmed !== "") void onSubmit(trimmed, files.files);
  };
  const isAboutName = error?.field === "adapter";
  const nameError =
    isNameMissing && name.trim() === "" ? "Give it a name." : isAboutName && error.message;
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      {error && !isAboutName && (
        <Notice tone="bad" title="The upload did not go through">
          {error.message}
          {(error.failure === "network" || error.failure === "unavailable") && (
            <> What has been sent is kept: upload the same files again to go on from there.</>
          )}
        </Notice>
      )}
      <DropZone onFiles={take} onUnreadable={setProblem} />
      {problem && (
        <Notice tone="bad" title="These files will not do">
          {problem}
        </Notice>
      )}
      {files && <ChosenFiles files={files} />}
      <Field
        label="Adapter name"
        hint="Letters, digits, “-”, “_” and “.”. A name that exists gets a new version."
        error={nameError || null}
      >
        {(ids) => (
          <input
            {...ids}
            name="name"
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            value={name}
            onChange={(event) => {
              onName(event.target.value);
            }}
          />
        )}
      </Field>
      <div>
        <Button look="primary" type="submit">
          Upload
        </Button>
      </div>
    </form>
  );
}
