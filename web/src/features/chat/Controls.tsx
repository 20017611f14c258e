import type { Model } from "@/shared/api/types";
import { Button } from "@/shared/ui/Button";
import { Field } from "@/shared/ui/Field";
import styles from "./Controls.module.css";
import { ModelOptions } from "./ModelOptions";
import { NumberField } from "./NumberField";
import type { Sampling } from "./stream";

type Props = {
  models: Model[];
  model: string;
  sampling: Sampling;
  canClear: boolean;
  onModel: (model: string) => void;
  onSampling: (sampling: Sampling) => void;
  onClear: () => void;
};

export function Controls({
  models,
  model,
  sampling,
  canClear,
  onModel,
  onSampling,
  onClear,
}: Props) {
  return (
    <aside className={styles.controls} aria-label="Model and parameters">
      <Field label="Model">
        {(ids) => (
          <select
            {...ids}
            value={model}
            onChange={(event) => {
              onModel(event.target.value);
            }}
          >
            <ModelOptions models={models} chosen={model} />
          </select>
        )}
      </Field>
      <div className={styles.numbers}>
        <NumberField
          label="Temperature"
          value={sampling.temperature}
          min={0}
          max={2}
          step={0.1}
          onChange={(temperature) => {
            onSampling({ ...sampling, temperature });
          }}
        />
        <NumberField
          label="Max tokens"
          value={sampling.maxTokens}
          min={1}
          max={8192}
          step={1}
          onChange={(maxTokens) => {
            onSampling({ ...sampling, maxTokens });
          }}
        />
      </div>
      <Button isSmall disabled={!canClear} onClick={onClear}>
        New conversation
      </Button>
    </aside>
  );
}
