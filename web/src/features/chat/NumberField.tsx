import { useState } from "react";
import { Field } from "@/shared/ui/Field";

type Props = {
  label: string;
  value: number;
  min: number;
  max: number;
  /** 1 means whole numbers only. */
  step: number;
  onChange: (value: number) => void;
};

/** What is typed stays as typed; only a number within the bounds becomes the value. */
export function NumberField({ label, value, min, max, step, onChange }: Props) {
  const [text, setText] = useState(String(value));
  const fits = (typed: string) => {
    const number = Number(typed);
    return (
      typed.trim() !== "" &&
      number >= min &&
      number <= max &&
      (step !== 1 || Number.isInteger(number))
    );
  };
  return (
    <Field label={label} error={fits(text) ? null : `${min} to ${max}; ${value} is used.`}>
      {(ids) => (
        <input
          {...ids}
          type="number"
          inputMode="decimal"
          min={min}
          max={max}
          step={step}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            if (fits(event.target.value)) onChange(Number(event.target.value));
          }}
        />
      )}
    </Field>
  );
}
