const LARGEST_PAGE = 200;

type Page<Item> = { data: Item[]; next_cursor: string | null };
export type PageQuery = { limit: number; cursor?: string };

/** Every item of a list, asked for page by page. */
export async function everyPage<Item>(
  ask: (query: PageQuery) => Promise<Page<Item>>,
): Promise<Item[]> {
  const items: Item[] = [];
  let query: PageQuery = { limit: LARGEST_PAGE };
  for (;;) {
    const page = await ask(query);
    items.push(...page.data);
    if (page.next_cursor === null) return items;
    query = { limit: LARGEST_PAGE, cursor: page.next_cursor };
  }
}
