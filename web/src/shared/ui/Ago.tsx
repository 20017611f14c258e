import { useSyncExternalStore } from "react";
import { formatAgo, formatInstant } from "@/shared/format";

const TICK_MS = 10_000;

/** How long ago something was; it stays true while the page is open. */
export function Ago({ at }: { at: string }) {
  const now = useSyncExternalStore(subscribe, currentTick);
  return (
    <time dateTime={at} title={formatInstant(at)}>
      {formatAgo(at, now)}
    </time>
  );
}

function subscribe(onTick: () => void) {
  const timer = setInterval(onTick, TICK_MS);
  return () => {
    clearInterval(timer);
  };
}

const currentTick = () => Math.ceil(Date.now() / TICK_MS) * TICK_MS;
