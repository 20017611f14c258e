import { formatCount, formatMoney } from "@/shared/format";
import { Table, type Column } from "@/shared/ui/Table";
import type { Amounts } from "./amounts";

export type Line = { id: string; name: string; amounts: Amounts };

type Props = { caption: string; what: string; lines: Line[]; currency: string };

/** Usage line by line: of groups, or of moments. */
export function AmountsTable({ caption, what, lines, currency }: Props) {
  const count = (name: string, of: (amounts: Amounts) => number): Column<Line> => ({
    name,
    cell: ({ amounts }) => formatCount(of(amounts)),
    isNumber: true,
  });
  const columns: Column<Line>[] = [
    { name: what, cell: ({ name }) => name },
    count("Requests", ({ requests }) => requests),
    count("Prompt tokens", ({ prompt_tokens }) => prompt_tokens),
    count("of them cached", ({ cached_tokens }) => cached_tokens),
    count("Output tokens", ({ output_tokens }) => output_tokens),
    {
      name: "Cost",
      cell: ({ amounts }) => formatMoney(amounts.cost_micros, currency),
      isNumber: true,
    },
  ];
  return <Table caption={caption} columns={columns} rows={lines} keyOf={({ id }) => id} />;
}
