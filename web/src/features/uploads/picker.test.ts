import { describe, expect, it } from "vitest";
import { pickAdapter, suggestName } from "./picker";

const files = (...paths: string[]) =>
  paths.map((path) => ({ path, file: new File(["x"], path.slice(path.lastIndexOf("/") + 1)) }));
const found = (...paths: string[]) => {
  const picked = pickAdapter(files(...paths));
  return "found" in picked ? picked.found : picked;
};

describe("pickAdapter", () => {
  it("takes two files that come without a folder", () => {
    expect(found("adapter_model.safetensors", "adapter_config.json")).toMatchObject({
      folder: "",
      ignored: 0,
    });
  });

  it("ignores what else lies in the folder", () => {
    expect(
      found(
        "a/README.md",
        "a/adapter_config.json",
        "a/adapter_model.safetensors",
        "a/tokenizer.json",
      ),
    ).toMatchObject({
      folder: "a",
      ignored: 2,
    });
  });

  it("prefers the folder itself to the checkpoints inside it", () => {
    const checkpoint = [
      "a/checkpoint-10/adapter_config.json",
      "a/checkpoint-10/adapter_model.safetensors",
    ];
    expect(
      found(...checkpoint, "a/adapter_config.json", "a/adapter_model.safetensors"),
    ).toMatchObject({ folder: "a" });
  });

  it("finds the adapter in a folder below", () => {
    expect(found("run/out/adapter_config.json", "run/out/adapter_model.safetensors")).toMatchObject(
      { folder: "run/out" },
    );
  });

  it("asks which, when two folders are equally near", () => {
    const two = ["a/x", "a/y"].flatMap((folder) => [
      `${folder}/adapter_config.json`,
      `${folder}/adapter_model.safetensors`,
    ]);
    expect(found(...two)).toEqual({ problem: expect.stringMatching(/“a\/x”.*“a\/y”/) as string });
  });

  it("takes one archive, named by its own name", () => {
    expect(found("support.tar.gz")).toMatchObject({ folder: "support", ignored: 0 });
    expect(found("support.zip")).toMatchObject({ files: [{ name: "support.zip" }] });
  });

  it("takes no two archives", () => {
    expect(found("a.zip", "b.zip")).toEqual({
      problem: expect.stringMatching(/save_pretrained/) as string,
    });
  });

  it.each([
    ["a pickle file", ["a/adapter_config.json", "a/adapter_model.bin"], /pickle/],
    ["missing weights", ["a/adapter_config.json"], /adapter_model\.safetensors is missing/],
    ["a missing configuration", ["a/adapter_model.safetensors"], /adapter_config\.json is missing/],
    [
      "files in different folders",
      ["a/adapter_config.json", "b/adapter_model.safetensors"],
      /different folders/,
    ],
    ["neither file", ["a/notes.txt"], /save_pretrained/],
  ])("explains %s", (_, paths, words) => {
    expect(found(...paths)).toEqual({ problem: expect.stringMatching(words) as string });
  });
});

it.each([
  ["runs/My Support Bot!", "my-support-bot"],
  ["v1.2_final", "v1.2_final"],
  ["--x--", "x"],
  ["", ""],
])("suggests for the folder “%s” the name “%s”", (folder, name) => {
  expect(suggestName(folder)).toBe(name);
});
