import { useState, type ReactNode } from "react";
import { formatCount } from "@/shared/format";
import { Button } from "./Button";
import { classes } from "./classes";
import styles from "./Table.module.css";

/** What one column shows of a row; numbers stand at the right, under each other. */
export type Column<Row> = {
  name: string;
  cell: (row: Row) => ReactNode;
  isNumber?: boolean;
};

type Props<Row> = {
  caption: string;
  /** The first one names the row. */
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
};

const STEP_ROWS = 100;

/** A list as a table, and on a phone as cards; a long one grows when asked to. */
export function Table<Row>({ caption, columns, rows, keyOf }: Props<Row>) {
  const [shownRows, setShownRows] = useState(STEP_ROWS);
  const hidden = rows.length - shownRows;
  return (
    <>
      <div className={styles.frame}>
        <table className={styles.table}>
          <caption className="visually-hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map(({ name, isNumber }) => (
                <th key={name} scope="col" className={classes(isNumber && styles.number)}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shownRows).map((row) => (
              <tr key={keyOf(row)}>
                {columns.map((column, index) => (
                  <Cell key={column.name} column={column} row={row} isHeader={index === 0} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hidden > 0 && (
        <div>
          <Button
            onClick={() => {
              setShownRows(shownRows + STEP_ROWS);
            }}
          >
            Show {formatCount(Math.min(hidden, STEP_ROWS))} of {formatCount(hidden)} more
          </Button>
        </div>
      )}
    </>
  );
}

type CellProps<Row> = { column: Column<Row>; row: Row; isHeader: boolean };

function Cell<Row>({ column: { name, cell, isNumber }, row, isHeader }: CellProps<Row>) {
  if (isHeader) return <th scope="row">{cell(row)}</th>;
  return (
    <td data-label={name} className={classes(isNumber && styles.number)}>
      {cell(row)}
    </td>
  );
}
