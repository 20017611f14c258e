import type { Model } from "@/shared/api/types";

/** Adapters first: the base is there to compare with. */
export function ModelOptions({ models }: { models: Model[] }) {
  const adapters = models.filter(({ parent }) => parent !== null);
  const bases = models.filter(({ parent }) => parent === null);
  return (
    <>
      {adapters.length > 0 && <Group label="Your adapters" models={adapters} />}
      {bases.length > 0 && <Group label="Base model, no adapter" models={bases} />}
    </>
  );
}

function Group({ label, models }: { label: string; models: Model[] }) {
  return (
    <optgroup label={label}>
      {models.map(({ id }) => (
        <option key={id} value={id}>
          {id}
        </option>
      ))}
    </optgroup>
  );
}
