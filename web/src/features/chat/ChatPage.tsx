import { useSearchParams } from "react-router";
import { ButtonLink } from "@/shared/ui/Button";
import { EmptyState } from "@/shared/ui/EmptyState";
import { LoadFailed } from "@/shared/ui/LoadFailed";
import { Page } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import { Conversation } from "./Conversation";
import { chooseModel, useModels } from "./models";

export function ChatPage() {
  return (
    <Page
      title="Chat"
      lead="Talk to a model as your application would: the same API, the same limits."
    >
      <Chat />
    </Page>
  );
}

function Chat() {
  const [search, setSearch] = useSearchParams(); // the chosen model lives in the URL
  const models = useModels();

  if (models.isPending) return <Skeleton label="Loading the models you can call" />;
  if (models.isLoadingError) return <LoadFailed error={models.error} onRetry={models.refetch} />;
  if (models.data.length === 0) {
    return (
      <EmptyState
        title="Nothing to talk to yet"
        action={<ButtonLink to="/upload">Upload an adapter</ButtonLink>}
      >
        No model can be called with this key.
      </EmptyState>
    );
  }
  return (
    <Conversation
      models={models.data}
      model={chooseModel(models.data, search.get("model"))}
      asked={search.get("model")}
      onModel={(model) => {
        setSearch({ model }, { replace: true });
      }}
    />
  );
}
