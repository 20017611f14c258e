import { vi } from "vitest";

type Answer = Response | (() => Response | Promise<Response>);

/** Answers fetch by "METHOD /path"; a call that nobody expected fails the test by its name. */
export function serve(answers: Record<string, Answer>) {
  const calls: Request[] = [];
  const answerTo = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(absolute(input), init);
    calls.push(request.clone());
    const call = `${request.method} ${new URL(request.url).pathname}`;
    const answer = answers[call];
    if (!answer) throw new Error(`the test expects no ${call}`);
    return answer instanceof Response ? answer.clone() : answer();
  };
  vi.stubGlobal("fetch", answerTo);
  return { calls };
}

const absolute = (input: string | URL) => new URL(input, window.location.origin);

export const json = (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), {
    status,
    headers: { "Content-Type": "application/json", ...headers },
  });

export const problem = (status: number, detail: string, code: string, headers = {}) =>
  json({ type: "about:blank", title: "Refused", status, detail, code }, status, headers);
