import { ButtonLink } from "@/shared/ui/Button";
import { EmptyState } from "@/shared/ui/EmptyState";
import { Page } from "@/shared/ui/Page";

export function NotFound() {
  return (
    <Page title="No such page" isNarrow>
      <EmptyState
        title="There is nothing at this address"
        action={<ButtonLink to="/">Go to the start</ButtonLink>}
      >
        The link may be old, or mistyped.
      </EmptyState>
    </Page>
  );
}
