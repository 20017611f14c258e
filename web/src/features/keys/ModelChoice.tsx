import { useState } from "react";
import type { CallerKey } from "@/shared/api/types";
import { Choices } from "@/shared/ui/Choices";
import { NameList } from "@/shared/ui/NameList";
import { EVERY_MODEL } from "./rules";
import { useModelNames } from "./useModelNames";

type Props = {
  caller: CallerKey;
  models: string[];
  error: string | null;
  onChange: (models: string[]) => void;
};

/** Every model, or those that are named; a key that may call some only makes no key for all. */
export function ModelChoice({ caller, models, error, onChange }: Props) {
  const mayAll = caller.models.includes(EVERY_MODEL);
  const isAll = models.includes(EVERY_MODEL);
  const known = useModelNames(caller);
  // What was named is there again when somebody looks at "all" and comes back.
  const [named, setNamed] = useState(isAll ? [] : models);
  return (
    <>
      {mayAll && (
        <Choices
          legend="Models it may call"
          kind="radio"
          choices={[
            { value: "all", name: "All", meaning: "Those to come, too" },
            { value: "named", name: "Only those that I name" },
          ]}
          chosen={[isAll ? "all" : "named"]}
          onChange={([chosen]) => {
            onChange(chosen === "all" ? [EVERY_MODEL] : named);
          }}
        />
      )}
      {!isAll && (
        <NameList
          label={mayAll ? "Name of a model" : "Models it may call"}
          hint="A base model or an adapter, which stands for its versions and aliases."
          names={models}
          suggestions={known}
          error={error}
          onChange={(names) => {
            setNamed(names);
            onChange(names);
          }}
        />
      )}
    </>
  );
}
