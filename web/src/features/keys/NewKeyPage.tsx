import { ButtonLink } from "@/shared/ui/Button";
import { Loaded } from "@/shared/ui/Loaded";
import { Card, Page } from "@/shared/ui/Page";
import { ShownOnce } from "@/shared/ui/ShownOnce";
import { useCaller, useCreateKey } from "./api";
import { NewKeyForm } from "./NewKeyForm";

export function NewKeyPage() {
  const caller = useCaller();
  const create = useCreateKey();
  const made = create.data;
  return (
    <Page title="New key" isNarrow>
      <Card>
        {made ? (
          <ShownOnce
            title={`${made.name} is made`}
            what="API key"
            text={made.api_key}
            action={<ButtonLink to={`/keys/${made.id}`}>I have kept it</ButtonLink>}
          >
            Copy it now and keep it where its program can read it. It is shown this once: nobody can
            tell it again.
          </ShownOnce>
        ) : (
          <Loaded query={caller} label="Looking up what you may" rows={4}>
            {(may) => <NewKeyForm caller={may} create={create} />}
          </Loaded>
        )}
      </Card>
    </Page>
  );
}
