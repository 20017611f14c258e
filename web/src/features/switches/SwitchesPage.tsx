import { useWorkers } from "@/features/workers/api";
import { MayOperate } from "@/features/session/May";
import type { Switch } from "@/shared/api/types";
import { Ago } from "@/shared/ui/Ago";
import { Badge } from "@/shared/ui/Badge";
import { Item, Items } from "@/shared/ui/Items";
import { Loaded } from "@/shared/ui/Loaded";
import { Card, Page } from "@/shared/ui/Page";
import { useSwitches } from "./api";
import { drainOf, meaningOf } from "./meanings";
import { Turn } from "./Turn";

export function SwitchesPage() {
  const switches = useSwitches();
  return (
    <Page
      title="Kill switches"
      lead="Each stops something for everybody, on every gateway within five seconds, until it is turned off again."
      isNarrow
    >
      <Loaded query={switches} label="Loading the switches">
        {(known) => (
          <Card>
            <Switches known={known} />
          </Card>
        )}
      </Loaded>
    </Page>
  );
}

type NeverTurned = Pick<Switch, "name" | "is_on">;

/** Those that there are, and one for each pool that could be drained. */
function Switches({ known }: { known: Switch[] }) {
  const workers = useWorkers();
  const pools = new Set(workers.data?.workers.map(({ worker }) => worker.pool));
  const names = new Set(known.map(({ name }) => name));
  const others = [...pools].map(drainOf).filter((name) => !names.has(name));
  return (
    <Items label="Kill switches">
      {known.map((one) => (
        <SwitchItem key={one.name} turned={one} last={one} />
      ))}
      {others.map((name) => (
        <SwitchItem key={name} turned={{ name, is_on: false }} last={null} />
      ))}
    </Items>
  );
}

type ItemProps = { turned: NeverTurned; last: Switch | null };

function SwitchItem({ turned: { name, is_on }, last }: ItemProps) {
  const { title, effect } = meaningOf(name);
  return (
    <Item
      title={
        <>
          <h2>{title}</h2>
          <Badge tone={is_on ? "bad" : "quiet"}>{is_on ? "on" : "off"}</Badge>
        </>
      }
      note={
        <>
          {effect}
          {last && last.reason !== "" && (
            <>
              {" "}
              Turned {is_on ? "on" : "off"} by {last.changed_by} <Ago at={last.changed_at} />: “
              {last.reason}”
            </>
          )}
        </>
      }
    >
      <MayOperate>
        <Turn name={name} isOn={is_on} />
      </MayOperate>
    </Item>
  );
}
