import { useId, type ReactNode } from "react";
import styles from "./Form.module.css";

type Choice<Value> = { value: Value; name: ReactNode; meaning?: string };

type Props<Value extends string> = {
  legend: string;
  /** Any number of them, or exactly one. */
  kind: "checkbox" | "radio";
  choices: readonly Choice<Value>[];
  chosen: readonly Value[];
  error?: string | null | undefined;
  onChange: (chosen: Value[]) => void;
};

/** A question with its possible answers in sight. */
export function Choices<Value extends string>(props: Props<Value>) {
  const { legend, kind, choices, chosen, error, onChange } = props;
  const name = useId();
  const change = (value: Value) => {
    if (kind === "radio") onChange([value]);
    else if (chosen.includes(value)) onChange(chosen.filter((one) => one !== value));
    else onChange([...chosen, value]);
  };
  return (
    <fieldset className={styles.group} {...(error && { "aria-describedby": `${name}-error` })}>
      <legend>{legend}</legend>
      <div className={styles.choices}>
        {choices.map(({ value, name: words, meaning }) => (
          <label key={value} className={styles.choice}>
            <input
              type={kind}
              name={name}
              checked={chosen.includes(value)}
              onChange={() => {
                change(value);
              }}
            />
            <span>{words}</span>
            {meaning && <small>{meaning}</small>}
          </label>
        ))}
      </div>
      {error && (
        <p id={`${name}-error`} className={styles.error} role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}
