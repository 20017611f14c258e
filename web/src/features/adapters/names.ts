import type { Version } from "@/shared/api/types";

export type ModelName = { model: string; meaning: string };

/** The names under which an adapter can be called; none while no version is ready. */
export function modelNames(tenant: string, adapter: string, versions: Version[]): ModelName[] {
  const ready = versions.filter(({ status }) => status === "ready");
  const newest = ready.toSorted((a, b) => b.version - a.version)[0];
  if (!newest) return [];
  return [
    {
      model: `${tenant}/${adapter}`,
      meaning: "The alias prod; until it is set, the newest ready version.",
    },
    { model: newest.model, meaning: `Version ${newest.version}. Never changes.` },
    { model: adapter, meaning: "Short form, for keys of your own tenant." },
  ];
}
