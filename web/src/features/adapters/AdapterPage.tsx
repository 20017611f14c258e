import { useParams } from "react-router";
import { useSession } from "@/features/session/current";
import { May } from "@/features/session/May";
import { ButtonLink } from "@/shared/ui/Button";
import { LoadFailed, Stale } from "@/shared/ui/LoadFailed";
import { Card, Page } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import { AliasCard } from "./AliasCard";
import { useVersions } from "./api";
import { HowToCall } from "./HowToCall";
import { KeepCard } from "./KeepCard";
import { ModelNames } from "./ModelNames";
import { modelNames } from "./names";
import { RolloutCard } from "./RolloutCard";
import { VersionList } from "./VersionList";
import { DeletedVersions } from "./VersionRemoval";

export function AdapterPage() {
  const name = useParams().name ?? "";
  return (
    <Page
      title={name}
      actions={
        <May scope="adapters.write">
          <ButtonLink to={`/upload?name=${encodeURIComponent(name)}`}>
            Upload a new version
          </ButtonLink>
        </May>
      }
    >
      <AdapterDetails name={name} />
    </Page>
  );
}

function AdapterDetails({ name }: { name: string }) {
  const session = useSession();
  const versions = useVersions(name);

  if (versions.isPending) return <Skeleton label={`Loading ${name}`} rows={4} />;
  if (versions.isLoadingError)
    return <LoadFailed error={versions.error} onRetry={versions.refetch} />;

  const names = modelNames(session.tenant ?? "", name, versions.data);
  return (
    <>
      {versions.isRefetchError && <Stale onRetry={versions.refetch} />}
      {names[0] && (
        <>
          <Card
            title="Model names"
            actions={
              <May scope="models.call">
                <ButtonLink
                  to={`/chat?model=${encodeURIComponent(names[0].model)}`}
                  look="primary"
                  isSmall
                >
                  Chat with it
                </ButtonLink>
              </May>
            }
          >
            <ModelNames names={names} />
          </Card>
          <Card title="Call it">
            <HowToCall origin={window.location.origin} model={names[0].model} />
          </Card>
        </>
      )}
      <AliasCard adapter={name} versions={versions.data} />
      <RolloutCard adapter={name} versions={versions.data} />
      <Card title="Versions">
        <VersionList versions={versions.data} />
        <DeletedVersions adapter={name} />
      </Card>
      <KeepCard adapter={name} />
    </>
  );
}
