// Uses an MCP server with one of the client libraries of Node: client.mjs FOLDER LIBRARY URL KEY.
// FOLDER has the node_modules. Prints the same line of JSON as client.py.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, library, url, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const sum = { expression: "2+3" };
const require = createRequire(`${folder}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function withSdk(Client, Transport, options) {
  const client = new Client({ name: "test", version: "1" }, options);
  await client.connect(new Transport(new URL(url), { requestInit: { headers } }));
  const { tools } = await client.listTools();
  const called = await client.callTool({ name: "calculator", arguments: sum });
  const prompt = await client.getPrompt({ name: "played__p" });
  const resource = await client.readResource({ uri: "played://a" });
  await client.close();
  return [
    tools.map((tool) => tool.name),
    called.content[0].text,
    prompt.messages[0].content.text,
    resource.contents[0].text,
  ];
}

const use = {
  client: async () => {
    const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
    return withSdk(Client, StreamableHTTPClientTransport, {
      versionNegotiation: { mode: "auto" },
    });
  },
  sdk: async () => {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const http = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return withSdk(Client, http.StreamableHTTPClientTransport);
  },
  "ai-sdk": async () => {
    const { createMCPClient } = await load("@ai-sdk/mcp");
    const client = await createMCPClient({ transport: { type: "http", url, headers } });
    const tools = await client.tools();
    const called = await tools.calculator.execute(sum, { messages: [], toolCallId: "1" });
    await client.close();
    return [Object.keys(tools), called.content[0].text, null, null];
  },
};
const [tools, said, prompt, resource] = await use[library]();
console.log(JSON.stringify({ tools, said, prompt, resource }));
process.exit(0);
