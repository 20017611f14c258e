import type { Model } from "@/shared/api/types";
import { isAdapter } from "./models";

/** Adapters first: the base is there to compare with. A chosen pinned version stays on offer. */
export function ModelOptions({ models, chosen }: { models: Model[]; chosen: string }) {
  const adapters = models.filter(isAdapter).map(({ id }) => id);
  const bases = models.filter((model) => !isAdapter(model)).map(({ id }) => id);
  const isPinned = !models.some(({ id }) => id === chosen);
  return (
    <>
      {isPinned && <Group label="Pinned version" names={[chosen]} />}
      {adapters.length > 0 && <Group label="Your adapters" names={adapters} />}
      {bases.length > 0 && <Group label="Base model, no adapter" names={bases} />}
    </>
  );
}

function Group({ label, names }: { label: string; names: string[] }) {
  return (
    <optgroup label={label}>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </optgroup>
  );
}
