import { expect, it } from "vitest";
import { anUpload } from "@/testing/samples";
import { isOf, missingParts, partCount, partRange, receivedBytes, totalBytes } from "./parts";

const FILE = {
  name: "adapter_model.safetensors",
  size_bytes: 25,
  sha256: "ab".repeat(32),
  part_bytes: 10,
  parts_received: [1, 3],
};

it("cuts a file into equal parts, the last with the rest", () => {
  expect(partCount(FILE)).toBe(3);
  expect([1, 2, 3].map((part) => partRange(FILE, part))).toEqual([
    [0, 10],
    [10, 20],
    [20, 25],
  ]);
});

it("sends only what has not come", () => {
  expect(missingParts(FILE)).toEqual([2]);
  expect(missingParts({ ...FILE, parts_received: [] })).toEqual([1, 2, 3]);
});

it("counts the bytes that have come, the short last part too", () => {
  const upload = anUpload({ files: [FILE, { ...FILE, name: "adapter_config.json" }] });
  expect(receivedBytes(upload)).toBe(30);
  expect(totalBytes(upload)).toBe(50);
});

it("goes on with an upload of the same bytes only", () => {
  const upload = anUpload({ files: [FILE] });
  const { name, size_bytes, sha256 } = FILE;
  expect(isOf(upload, [{ name, size_bytes, sha256 }])).toBe(true);
  expect(isOf(upload, [{ name, size_bytes, sha256: "cd".repeat(32) }])).toBe(false);
  expect(isOf(upload, [])).toBe(false);
});
