import type { FoundFile } from "./picker";

/** Files chosen in a file or folder dialog. */
export const chosenFiles = (list: FileList | null): FoundFile[] =>
  [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

/** Files of a drop, folders walked through. Entries must be taken before the event is over. */
export function droppedFiles(transfer: DataTransfer): Promise<FoundFile[]> {
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  return walkAll(entries);
}

const walkAll = async (entries: FileSystemEntry[]) => (await Promise.all(entries.map(walk))).flat();

async function walk(entry: FileSystemEntry): Promise<FoundFile[]> {
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => {
      entry.file(resolve, reject);
    });
    return [{ path: entry.fullPath.replace(/^\//, ""), file }];
  }
  return isDirectory(entry) ? walkAll(await childrenOf(entry)) : [];
}

/** A reader gives at most a hundred entries a call, and none when it is through. */
async function childrenOf(directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = directory.createReader();
  const children: FileSystemEntry[] = [];
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (batch.length === 0) return children;
    children.push(...batch);
  }
}

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isDirectory = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry =>
  entry.isDirectory;
