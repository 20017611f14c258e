import type { ReactNode } from "react";
import { CodeBlock } from "./CodeBlock";
import { Notice } from "./Notice";

type Props = { title: string; what: string; text: string; children: ReactNode; action: ReactNode };

/** A secret right after it was made: nobody, we included, can tell it again. */
export function ShownOnce({ title, what, text, children, action }: Props) {
  return (
    <>
      <Notice tone="good" title={title}>
        {children}
      </Notice>
      <CodeBlock title={what} code={text} />
      <div>{action}</div>
    </>
  );
}
