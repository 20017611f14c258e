import { useId, useState, type KeyboardEvent } from "react";
import { Button } from "./Button";
import { Field } from "./Field";
import styles from "./NameList.module.css";

type Props = {
  label: string;
  hint?: string;
  names: readonly string[];
  suggestions: readonly string[];
  error: string | null;
  onChange: (names: string[]) => void;
};

/** A list that is put together name by name. */
export function NameList({ label, hint, names, suggestions, error, onChange }: Props) {
  const listId = useId();
  const [typed, setTyped] = useState("");
  const add = () => {
    const name = typed.trim();
    if (name !== "" && !names.includes(name)) onChange([...names, name]);
    setTyped("");
  };
  const addOnEnter = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || typed.trim() === "") return;
    event.preventDefault(); // it adds the name, it does not send the form
    add();
  };
  return (
    <div className={styles.list}>
      <Field label={label} hint={hint} error={error}>
        {(ids) => (
          <div className={styles.line}>
            <input
              {...ids}
              list={listId}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              value={typed}
              onKeyDown={addOnEnter}
              onChange={(event) => {
                setTyped(event.target.value);
              }}
            />
            <Button onClick={add}>Add</Button>
          </div>
        )}
      </Field>
      <datalist id={listId}>
        {suggestions
          .filter((name) => !names.includes(name))
          .map((name) => (
            <option key={name} value={name} />
          ))}
      </datalist>
      {names.length > 0 && (
        <ul className={styles.names} aria-label={`${label}: chosen`}>
          {names.map((name) => (
            <li key={name}>
              <code>{name}</code>
              <Button
                isSmall
                look="quiet"
                aria-label={`Take ${name} away`}
                onClick={() => {
                  onChange(names.filter((one) => one !== name));
                }}
              >
                ×
              </Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
