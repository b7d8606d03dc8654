// Uses the types that were generated from our OpenAPI document.

import createClient from "openapi-fetch";

import type { components, paths } from "./api";

declare const process: { argv: string[]; exit(code: number): never };

const [url, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

function must(holds: unknown, what: unknown): asserts holds {
  if (!holds) {
    console.error("does not hold:", what);
    process.exit(1);
  }
}

async function refused(kind: string, body: components["schemas"]["CallBody"]) {
  const { data, response } = await client.POST("/v1/calls", { body });
  must(response.status === 200 && data && "is_success" in data, data);
  must(!data.is_success && data.error_kind === kind, data);
}

async function main() {
  await refused("invalid_arguments", { tool: "echo", arguments: {} });
  await refused("tool_not_found", { tool: "nothing_of_the_kind", arguments: {} });
  await refused("denied", { tool: "forbidden", arguments: { message: "hi" } });

  // A word that the document does not have would not compile.
  const kinds: components["schemas"]["CallerKind"][] = [
    "conversation_agent",
    "workflow_node",
    "direct",
  ];
  for (const caller_type of kinds) {
    const body = { tool: "echo", arguments: { message: caller_type }, caller_type };
    const { data } = await client.POST("/v1/calls", { body });
    must(data && "is_success" in data && data.is_success, data);
    const found = await client.GET("/v1/calls/{call_id}", {
      params: { path: { call_id: data.call_id } },
    });
    must(found.data, found.error);
  }
  const stranger = createClient<paths>({ baseUrl: url, headers: { Authorization: "Bearer no" } });
  const { error } = await stranger.GET("/v1/calls");
  must(error?.code === "unauthorized", error);
  console.log("the generated TypeScript client: refused calls, every caller type, problems");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
