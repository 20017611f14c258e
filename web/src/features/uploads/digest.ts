import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/**
 * The SHA-256 of a file in hex digits, read piece by piece: the browser's own digest wants the
 * whole file in memory, and exists on https and on localhost only.
 */
export async function sha256OfFile(
  file: Pick<Blob, "stream">,
  signal: AbortSignal,
): Promise<string> {
  const hash = sha256.create();
  const reader = file.stream().getReader();
  for (;;) {
    signal.throwIfAborted();
    const { done, value } = await reader.read();
    if (done) return bytesToHex(hash.digest());
    hash.update(value);
  }
}
