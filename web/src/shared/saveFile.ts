/** Hands bytes to the browser as a download. */
export function saveFile(bytes: Blob, name: string) {
  const url = URL.createObjectURL(bytes);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
