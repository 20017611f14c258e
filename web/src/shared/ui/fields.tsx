import type { ComponentProps, ReactNode } from "react";
import { Field } from "./Field";

type Common = {
  label: string;
  hint?: ReactNode;
  error?: string | null | undefined;
  value: string;
  onChange: (value: string) => void;
};

type TextProps = Common & Omit<ComponentProps<"input">, keyof Common | "id">;

export function TextField({ label, hint, error = null, value, onChange, ...rest }: TextProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <input
          autoComplete="off"
          {...rest}
          {...ids}
          value={value}
          onChange={(event) => {
            onChange(event.target.value);
          }}
        />
      )}
    </Field>
  );
}

type SelectProps<Value extends string> = {
  label: string;
  hint?: ReactNode;
  error?: string | null | undefined;
  value: Value;
  options: readonly (readonly [value: Value, name: string])[];
  onChange: (value: Value) => void;
};

export function SelectField<Value extends string>(props: SelectProps<Value>) {
  const { label, hint, error = null, value, options, onChange } = props;
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <select
          {...ids}
          value={value}
          onChange={({ target }) => {
            const chosen = options.find(([one]) => one === target.value);
            if (chosen) onChange(chosen[0]);
          }}
        >
          {options.map(([one, name]) => (
            <option key={one} value={one}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
