import { useOutletContext } from "react-router";
import type { Session } from "@/shared/api/types";

export type { Scope } from "@/shared/api/types";

/** The signed-in session; only pages below RequireSession have one. */
export const useSession = () => useOutletContext<Session>();
