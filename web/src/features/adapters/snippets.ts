/** Ready to paste: both read the key from LORAPLEX_API_KEY. */

export const curlSnippet = (origin: string, model: string) => `curl ${origin}/v1/chat/completions \\
  -H "Authorization: Bearer $LORAPLEX_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`;

export const pythonSnippet = (origin: string, model: string) => `import os
from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key=os.environ["LORAPLEX_API_KEY"])
stream = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
    stream=True,
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)`;
