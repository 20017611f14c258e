import { Navigate, type RouteObject } from "react-router";
import { AccountPage } from "@/features/account/AccountPage";
import { AdapterPage } from "@/features/adapters/AdapterPage";
import { AdaptersPage } from "@/features/adapters/AdaptersPage";
import { ChatPage } from "@/features/chat/ChatPage";
import { KeyPage } from "@/features/keys/KeyPage";
import { KeysPage } from "@/features/keys/KeysPage";
import { NewKeyPage } from "@/features/keys/NewKeyPage";
import { MembersPage } from "@/features/members/MembersPage";
import { useSession } from "@/features/session/current";
import { SignInPage } from "@/features/session/SignInPage";
import { WelcomePage } from "@/features/session/WelcomePage";
import { SwitchesPage } from "@/features/switches/SwitchesPage";
import { TenantPage } from "@/features/tenants/TenantPage";
import { TenantsPage } from "@/features/tenants/TenantsPage";
import { UploadPage } from "@/features/uploads/UploadPage";
import { UsagePage } from "@/features/usage/UsagePage";
import { WorkersPage } from "@/features/workers/WorkersPage";
import { Crashed } from "./Crashed";
import { NotFound } from "./NotFound";
import { For, RequireSession } from "./RequireSession";
import { tabsOf } from "./tabs";

export const routes: RouteObject[] = [
  { path: "/welcome", element: <WelcomePage />, errorElement: <Crashed /> },
  { path: "/login", element: <SignInPage />, errorElement: <Crashed /> },
  {
    element: <RequireSession />,
    errorElement: <Crashed />,
    children: [
      { index: true, element: <Home /> },
      {
        element: <For kind="tenant" />,
        children: [
          { path: "/adapters", element: <AdaptersPage /> },
          { path: "/adapters/:name", element: <AdapterPage /> },
          { path: "/upload", element: <UploadPage /> },
          { path: "/chat", element: <ChatPage /> },
          { path: "/keys", element: <KeysPage /> },
          { path: "/keys/new", element: <NewKeyPage /> },
          { path: "/keys/:key", element: <KeyPage /> },
          { path: "/usage", element: <UsagePage /> },
          { path: "/members", element: <MembersPage /> },
        ],
      },
      {
        element: <For kind="operator" />,
        children: [
          { path: "/admin/workers", element: <WorkersPage /> },
          { path: "/admin/tenants", element: <TenantsPage /> },
          { path: "/admin/tenants/:tenant", element: <TenantPage /> },
          { path: "/admin/switches", element: <SwitchesPage /> },
        ],
      },
      { path: "/account", element: <AccountPage /> },
      { path: "*", element: <NotFound /> },
    ],
  },
];

/** The first page that is offered. */
function Home() {
  const [first] = tabsOf(useSession());
  return <Navigate to={first?.path ?? "/account"} replace />;
}
