import { useState } from "react";
import { useSearchParams } from "react-router";
import { Card, Page } from "@/shared/ui/Page";
import { Outcome } from "./Outcome";
import type { AdapterFiles } from "./picker";
import { Sending } from "./Sending";
import { UploadForm } from "./UploadForm";
import { useUpload } from "./useUpload";

export function UploadPage() {
  const [search] = useSearchParams();
  const [name, setName] = useState(search.get("name") ?? "");
  const [files, setFiles] = useState<AdapterFiles | null>(null);
  const { upload, start, cancel, again } = useUpload();

  return (
    <Page
      title="Upload an adapter"
      lead="A LoRA adapter in the PEFT format. It is checked first, and callable a moment later."
      isNarrow
    >
      <Card>
        {upload.step === "choosing" && (
          <UploadForm
            name={name}
            files={files}
            error={upload.error}
            onName={setName}
            onFiles={setFiles}
            onSubmit={start}
          />
        )}
        {upload.step === "sending" && <Sending {...upload} onCancel={cancel} />}
        {upload.step === "received" && (
          <Outcome
            received={upload.received}
            onAgain={() => {
              setFiles(null);
              again();
            }}
          />
        )}
      </Card>
    </Page>
  );
}
