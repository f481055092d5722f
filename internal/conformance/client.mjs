// What an agent does with toolhost serve, through the official TypeScript client: in both eras of the protocol, over both
// transports. `run` starts it with the address of a server in TOOLHOST_URL, and with the command of one in TOOLHOST_COMMAND.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { TOOLHOST_URL, TOOLHOST_COMMAND } = process.env;

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(TOOLHOST_URL)),
  stdio: () => new StdioClientTransport({ command: TOOLHOST_COMMAND, env: process.env, stderr: "inherit" }),
};

const eras = {
  "2025-11-25": { mode: "legacy" },
  "2026-07-28": { mode: { pin: "2026-07-28" } },
};

// connect gives a client that answers questions by answer, or that can be asked nothing.
async function connect(transport, negotiation, answer, options = {}) {
  const client = new Client(
    { name: "toolhost-conformance", version: "1.0.0" },
    { capabilities: answer ? { elicitation: {} } : {}, versionNegotiation: negotiation, ...options },
  );
  if (answer) {
    client.setRequestHandler("elicitation/create", answer);
  }
  await client.connect(transport());
  return client;
}

// eventually asks again until it holds, for ten seconds.
async function eventually(what, holds) {
  for (const until = Date.now() + 10_000; !(await holds()); await sleep(20)) {
    assert.ok(Date.now() < until, `it never came: ${what}`);
  }
}

const textOf = (result) => result.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");

for (const [transportName, transport] of Object.entries(transports)) {
  for (const [era, negotiation] of Object.entries(eras)) {
    describe(`${transportName}, ${era}`, { timeout: 120_000 }, () => {
      let client;
      before(async () => {
        client = await connect(transport, negotiation);
      });
      after(() => client?.close());

      it("speaks that revision", () => {
        assert.equal(client.getNegotiatedProtocolVersion(), era);
      });

      it("lists the tools, in the same order each time", async () => {
        const names = (await client.listTools()).tools.map((t) => t.name);
        assert.ok(names.includes("test_simple_text"), `got ${names}`);
        assert.deepEqual((await client.listTools({}, { cacheMode: "refresh" })).tools.map((t) => t.name), names);
      });

      it("says what a tool is and does", async () => {
        const { tools } = await client.listTools();
        const sum = tools.find((t) => t.name === "test_structured_output");
        assert.equal(sum.title, "Sum");
        assert.equal(sum.annotations.readOnlyHint, true);
        assert.equal(sum.outputSchema.properties.sum.type, "integer");
        assert.deepEqual(sum.inputSchema.required.toSorted(), ["a", "b"]);
      });

      it("gives text", async () => {
        const result = await client.callTool({ name: "test_simple_text" });
        assert.equal(textOf(result), "This is a simple text response for testing.");
        assert.ok(!result.isError);
      });

      it("gives a value that fits its schema, as text too", async () => {
        const result = await client.callTool({ name: "test_structured_output", arguments: { a: 2, b: 3 } });
        assert.deepEqual(result.structuredContent, { sum: 5 });
        assert.deepEqual(JSON.parse(textOf(result)), { sum: 5 });
      });

      it("gives a tool's own words alone, and the value to who asks for it", async () => {
        const call = { name: "test_projected_output", arguments: { a: 2, b: 3 } };
        const { tools } = await client.listTools();
        assert.equal(tools.find((t) => t.name === call.name).outputSchema, undefined);
        const result = await client.callTool(call);
        assert.equal(result.structuredContent, undefined);
        assert.match(textOf(result), /2 and 3 are 5/);
        const asked = await client.callTool({ ...call, _meta: { "toolhost/structured": true } });
        assert.deepEqual(asked.structuredContent, { sum: 5 });
      });

      it("gives images, sounds and resources", async () => {
        const image = (await client.callTool({ name: "test_image_content" })).content.find((c) => c.type === "image");
        assert.equal(image.mimeType, "image/png");
        assert.equal(Buffer.from(image.data, "base64").subarray(1, 4).toString(), "PNG");
        const audio = (await client.callTool({ name: "test_audio_content" })).content.find((c) => c.type === "audio");
        assert.equal(audio.mimeType, "audio/wav");
        const { resource } = (await client.callTool({ name: "test_embedded_resource" })).content.find((c) => c.type === "resource");
        assert.deepEqual(resource, {
          uri: "test://embedded-resource", mimeType: "text/plain", text: "This is an embedded resource content.",
        });
      });

      it("tells a failure to the model", async () => {
        const result = await client.callTool({ name: "test_error_handling" });
        assert.equal(result.isError, true);
        assert.match(textOf(result), /intentionally returns an error/);
      });

      it("tells invalid input to the model, and an unknown tool to the client", async () => {
        const result = await client.callTool({ name: "test_structured_output", arguments: { a: "two", b: 3 } });
        assert.equal(result.isError, true);
        await assert.rejects(client.callTool({ name: "no_such_tool" }), (err) => {
          assert.ok(err instanceof ProtocolError, `got ${err}`);
          assert.equal(err.code, -32602);
          return true;
        });
      });

      it("reports progress, which only grows", async () => {
        const seen = [];
        await client.callTool({ name: "test_tool_with_progress" }, { onprogress: (p) => seen.push(p.progress) });
        // The client forgets who listens when the result comes, which may be before it told of the last report.
        assert.deepEqual(seen, [0, 50, 100].slice(0, Math.max(2, seen.length)));
      });

      it("stops a call that is cancelled, where it runs", async () => {
        const cancelled = async () =>
          (await client.callTool({ name: "test_cancelled" })).structuredContent.cancelled;
        const before = await cancelled();
        const stop = new AbortController();
        await assert.rejects(
          client.callTool({ name: "test_slow" }, { signal: stop.signal, onprogress: () => stop.abort("enough") }),
        );
        await eventually("the plugin's call was cancelled", async () => (await cancelled()) > before);
      });

      it("keeps what is too long, and lets it be read", async () => {
        const result = await client.callTool({ name: "test_large_output" });
        assert.ok(textOf(result).length <= 64 << 10, `got ${textOf(result).length} characters`);
        const link = result.content.find((c) => c.type === "resource_link");
        const read = await client.readResource({ uri: link.uri });
        assert.match(read.contents[0].text, /^line 000000\n/);
        await assert.rejects(client.readResource({ uri: link.uri.slice(0, -4) + "none" }), ProtocolError);
      });

      it("says that the tools changed", async () => {
        let changed = 0;
        const listening = await connect(transport, negotiation, undefined, {
          listChanged: { tools: { autoRefresh: false, onChanged: () => changed++ } },
        });
        try {
          await sleep(200); // for the stream that the change comes on
          await listening.callTool({ name: "test_trigger_tool_change" });
          await eventually("the list changed", () => changed > 0);
        } finally {
          await listening.close();
        }
      });

      describe("an approval", () => {
        const call = { name: "test_elicitation", arguments: { message: "launch the thing" } };

        it("is asked of the person, and what was shown is done", async () => {
          const asked = [];
          const asking = await connect(transport, negotiation, (request) => {
            asked.push(request.params.message);
            return { action: "accept", content: { answer: "once" } };
          });
          try {
            const result = await asking.callTool(call);
            assert.match(textOf(result), /done as it was shown: launch the thing/);
            assert.equal(asked.length, 1);
            assert.match(asked[0], /launch the thing/);
          } finally {
            await asking.close();
          }
        });

        it("that nobody can give is a no, which says what to do", async () => {
          const result = await client.callTool(call);
          assert.equal(result.isError, true);
          assert.match(textOf(result), /toolhost approvals/);
        });

        it("that is declined leaves everything as it is", async () => {
          const asking = await connect(transport, negotiation, () => ({ action: "decline" }));
          try {
            const result = await asking.callTool(call);
            assert.equal(result.isError, true);
            assert.doesNotMatch(textOf(result), /done as it was shown/);
          } finally {
            await asking.close();
          }
        });
      });
    });
  }
}
