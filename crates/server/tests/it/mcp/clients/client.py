"""Uses an MCP server with one of the client libraries of Python: client.py LIBRARY URL KEY.

Prints a line of JSON: the names of the tools, what the calculator says, and for
libraries that read prompts and resources, what is in them.
"""

import asyncio
import json
import sys

LIBRARY, URL, KEY = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {KEY}"}
SUM = {"expression": "2+3"}


async def with_mcp():
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers=HEADERS) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            said = (await client.call_tool("calculator", SUM)).content[0].text
            prompt = await client.get_prompt("played__p")
            resource = await client.read_resource("played://a")
            return tools, said, prompt.messages[0].content.text, resource.contents[0].text


async def with_fastmcp():
    from fastmcp import Client

    async with Client(URL, auth=KEY) as client:
        tools = [tool.name for tool in await client.list_tools()]
        said = (await client.call_tool("calculator", SUM)).content[0].text
        prompt = await client.get_prompt("played__p")
        resource = await client.read_resource("played://a")
        return tools, said, prompt.messages[0].content.text, resource[0].text


async def with_langchain():
    from langchain_mcp_adapters.client import MultiServerMCPClient

    server = {"transport": "streamable_http", "url": URL, "headers": HEADERS}
    client = MultiServerMCPClient({"w": server})
    tools = {tool.name: tool for tool in await client.get_tools()}
    said = await tools["calculator"].ainvoke(SUM)
    prompt = await client.get_prompt("w", "played__p")
    resource = await client.get_resources("w", uris=["played://a"])
    text = said if isinstance(said, str) else said[0]["text"]
    return list(tools), text, prompt[0].content, resource[0].as_string()


async def with_openai_agents():
    from agents.mcp import MCPServerStreamableHttp

    async with MCPServerStreamableHttp(params={"url": URL, "headers": HEADERS}) as server:
        tools = [tool.name for tool in await server.list_tools()]
        said = (await server.call_tool("calculator", SUM)).content[0].text
        prompt = await server.get_prompt("played__p")
        return tools, said, prompt.messages[0].content.text, None


async def with_pydantic_ai():
    from fastmcp import Client
    from pydantic_ai.mcp import MCPToolset

    async with MCPToolset(Client(URL, auth=KEY)) as toolset:
        tools = [tool.name for tool in await toolset.list_tools()]
        said = await toolset.direct_call_tool("calculator", SUM)
        return tools, str(said), None, None


USE = {
    "mcp": with_mcp,
    "fastmcp": with_fastmcp,
    "langchain": with_langchain,
    "openai-agents": with_openai_agents,
    "pydantic-ai": with_pydantic_ai,
}
tools, said, prompt, resource = asyncio.run(USE[LIBRARY]())
print(json.dumps({"tools": tools, "said": said, "prompt": prompt, "resource": resource}))
