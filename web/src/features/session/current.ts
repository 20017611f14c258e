import { useOutletContext } from "react-router";
import type { Session } from "@/shared/api/types";

/** What the portal offers only to those who may. */
export type Scope = "adapters.write" | "models.call";

/** The signed-in session; only pages below RequireSession have one. */
export const useSession = () => useOutletContext<Session>();
