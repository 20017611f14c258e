import { Navigate, type RouteObject } from "react-router";
import { AdapterPage } from "@/features/adapters/AdapterPage";
import { AdaptersPage } from "@/features/adapters/AdaptersPage";
import { ChatPage } from "@/features/chat/ChatPage";
import { useSession } from "@/features/session/current";
import { SignInPage } from "@/features/session/SignInPage";
import { WelcomePage } from "@/features/session/WelcomePage";
import { UploadPage } from "@/features/uploads/UploadPage";
import { WorkersPage } from "@/features/workers/WorkersPage";
import { Crashed } from "./Crashed";
import { NotFound } from "./NotFound";
import { For, RequireSession } from "./RequireSession";

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
        ],
      },
      {
        element: <For kind="operator" />,
        children: [{ path: "/admin/workers", element: <WorkersPage /> }],
      },
      { path: "*", element: <NotFound /> },
    ],
  },
];

function Home() {
  const { kind } = useSession();
  return <Navigate to={kind === "operator" ? "/admin/workers" : "/adapters"} replace />;
}
