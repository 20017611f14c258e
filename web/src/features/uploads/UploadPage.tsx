import { useState } from "react";
import { useSearchParams } from "react-router";
import { Card, Page } from "@/shared/ui/Page";
import { Outcome } from "./Outcome";
import { PendingUploads } from "./PendingUploads";
import type { AdapterFiles } from "./picker";
import { Sending } from "./Sending";
import { UploadForm } from "./UploadForm";
import { useUpload } from "./useUpload";

export function UploadPage() {
  const [search] = useSearchParams();
  const [name, setName] = useState(search.get("name") ?? "");
  const [files, setFiles] = useState<AdapterFiles | null>(null);
  const { sending, start, cancel, again } = useUpload();

  return (
    <Page
      title="Upload an adapter"
      lead="A LoRA adapter in the PEFT format. It is checked first, and callable a moment later."
      isNarrow
    >
      <Card>
        {sending.step === "choosing" && (
          <UploadForm
            name={name}
            files={files}
            error={sending.error}
            onName={setName}
            onFiles={setFiles}
            onSubmit={start}
          />
        )}
        {sending.step === "sending" && <Sending {...sending} onCancel={cancel} />}
        {sending.step === "sent" && (
          <Outcome
            sent={sending.upload}
            onAgain={() => {
              setFiles(null);
              again();
            }}
          />
        )}
      </Card>
      {sending.step === "choosing" && <PendingUploads onContinue={setName} />}
    </Page>
  );
}
