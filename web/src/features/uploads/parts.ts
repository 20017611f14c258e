import type { Upload } from "@/shared/api/types";

type UploadedFile = Upload["files"][number];

/** How many parts a file is cut into. */
export const partCount = (file: UploadedFile) => Math.ceil(file.size_bytes / file.part_bytes);

/** The first byte of a part and the first one after it. */
export function partRange(file: UploadedFile, part: number): [start: number, end: number] {
  const start = (part - 1) * file.part_bytes;
  return [start, Math.min(start + file.part_bytes, file.size_bytes)];
}

/** The parts that have not come yet, in order. */
export function missingParts(file: UploadedFile): number[] {
  const received = new Set(file.parts_received);
  const all = Array.from({ length: partCount(file) }, (_, index) => index + 1);
  return all.filter((part) => !received.has(part));
}

/** The bytes of an upload that have come. */
export const receivedBytes = (upload: Upload) =>
  upload.files.reduce(
    (total, file) =>
      file.parts_received.reduce((bytes, part) => {
        const [start, end] = partRange(file, part);
        return bytes + end - start;
      }, total),
    0,
  );

export const totalBytes = (upload: Upload) =>
  upload.files.reduce((total, file) => total + file.size_bytes, 0);

export type NamedDigest = { name: string; size_bytes: number; sha256: string };

/** Whether an upload is of exactly these files: the same bytes, not only names and sizes. */
export function isOf(upload: Upload, files: NamedDigest[]): boolean {
  return (
    upload.files.length === files.length &&
    files.every(({ name, size_bytes, sha256 }) =>
      upload.files.some(
        (file) => file.name === name && file.size_bytes === size_bytes && file.sha256 === sha256,
      ),
    )
  );
}
