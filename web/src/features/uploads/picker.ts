/** Finds an adapter's two files, or its archive, among what was dropped or chosen. */

export const CONFIG_NAME = "adapter_config.json";
export const WEIGHTS_NAME = "adapter_model.safetensors";

/** A file and its path as the browser gave it, folder first where there is one. */
export type FoundFile = { path: string; file: File };

export type AdapterFiles = {
  /** The configuration and the weights, or one archive of both. */
  files: File[];
  /** What the folder of both is called, or the archive; "" when nothing tells. */
  folder: string;
  ignored: number;
};

export type Picked = { found: AdapterFiles } | { problem: string };

/** The shallowest folder that holds both files; a checkpoint deeper down does not compete with it. */
export function pickAdapter(files: FoundFile[]): Picked {
  const byPath = new Map(files.map(({ path, file }) => [path, file]));
  const whole = [...new Set(files.map(({ path }) => folderOf(path)))].flatMap((folder) => {
    const inside = folder === "" ? "" : `${folder}/`;
    const config = byPath.get(inside + CONFIG_NAME);
    const weights = byPath.get(inside + WEIGHTS_NAME);
    return config && weights ? [{ folder, config, weights }] : [];
  });
  const shallowest = Math.min(...whole.map(({ folder }) => depthOf(folder)));
  const [first, second] = whole.filter(({ folder }) => depthOf(folder) === shallowest);

  if (!first) return pickArchive(files);
  if (second) {
    return {
      problem: `There is an adapter in “${first.folder}” and one in “${second.folder}”. Choose one of the two folders.`,
    };
  }
  const { folder, config, weights } = first;
  return { found: { files: [config, weights], folder, ignored: files.length - 2 } };
}

const ARCHIVE = /\.(zip|tar\.gz)$/;

/** One archive by itself; Loraplex looks inside. */
function pickArchive(files: FoundFile[]): Picked {
  const [only, ...others] = files;
  if (!only || others.length > 0 || !ARCHIVE.test(only.file.name)) {
    return { problem: whatIsMissing(files) };
  }
  return {
    found: { files: [only.file], folder: only.file.name.replace(ARCHIVE, ""), ignored: 0 },
  };
}

function whatIsMissing(files: FoundFile[]): string {
  const names = new Set(files.map(({ path }) => nameOf(path)));
  const hasConfig = names.has(CONFIG_NAME);
  if (names.has("adapter_model.bin") && !names.has(WEIGHTS_NAME)) {
    return "adapter_model.bin is a pickle file, which can run code when it is opened, so it is not accepted. Save the adapter with safe_serialization=True and upload the .safetensors file.";
  }
  if (hasConfig && names.has(WEIGHTS_NAME)) {
    return `${CONFIG_NAME} and ${WEIGHTS_NAME} lie in different folders. Choose the folder that holds both.`;
  }
  if (hasConfig) return `${WEIGHTS_NAME} is missing: an upload needs it beside ${CONFIG_NAME}.`;
  if (names.has(WEIGHTS_NAME)) {
    return `${CONFIG_NAME} is missing: an upload needs it beside ${WEIGHTS_NAME}.`;
  }
  return `Neither ${CONFIG_NAME} nor ${WEIGHTS_NAME} is among these files. Choose the folder that PEFT’s save_pretrained wrote.`;
}

const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
const folderOf = (path: string) => path.slice(0, Math.max(path.lastIndexOf("/"), 0));
const depthOf = (folder: string) => (folder === "" ? 0 : folder.split("/").length);

/** A name for the adapter from its folder's, within the grammar of adapter names; "" if none fits. */
export function suggestName(folder: string): string {
  return nameOf(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "")
    .slice(0, 96);
}
