// OpenAI's client for Node, and fetch. Usage: node openai.mjs http://HOST:PORT/v1 KEY
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Honk?" }];
const asked = { model: "any", messages, max_tokens: 12, temperature: 0 };

// A stream ends, and its text is that of the whole answer.
const whole = await client.chat.completions.create(asked);
let text = "";
for await (const piece of await client.chat.completions.create({ ...asked, stream: true })) {
  text += piece.choices[0]?.delta?.content ?? "";
}
assert.equal(text, whole.choices[0].message.content);

// The client asks for base64 by default, and decodes it.
const plain = await client.embeddings.create({ model: "any", input: "Honk.", encoding_format: "float" });
const encoded = await client.embeddings.create({ model: "any", input: "Honk." });
assert.deepEqual(encoded.data[0].embedding, plain.data[0].embedding);

// Errors have their classes and fields.
await assert.rejects(client.completions.create({ model: "any", prompt: "a", guided_goose: "b" }), (error) => {
  assert.ok(error instanceof OpenAI.BadRequestError);
  assert.equal(error.param, "guided_goose");
  return true;
});

// A schema is kept, and its properties come in their order.
const schema = {
  type: "object",
  properties: { kind: { enum: ["goose", "swan"] }, age: { type: "integer", minimum: 0, maximum: 30 } },
  required: ["kind", "age"],
  additionalProperties: false,
};
const format = { type: "json_schema", json_schema: { name: "bird", schema, strict: true } };
const bird = await client.chat.completions.create({ model: "any", messages, response_format: format });
assert.deepEqual(Object.keys(JSON.parse(bird.choices[0].message.content)), ["kind", "age"]);

// A tool is called, and the result of the call continues the chat.
const tools = [{ type: "function", function: { name: "look", parameters: schema, strict: true } }];
const looking = { model: "any", messages, tools, tool_choice: "required", parallel_tool_calls: false, seed: 3 };
const { message, finish_reason } = (await client.chat.completions.create(looking)).choices[0];
assert.equal(finish_reason, "tool_calls");
assert.ok(["goose", "swan"].includes(JSON.parse(message.tool_calls[0].function.arguments).kind));
const streamed = await client.chat.completions.stream(looking).finalChatCompletion();
assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, message.tool_calls[0].function.arguments);
const seen = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "a goose" };
const told = await client.chat.completions.create({ ...asked, messages: [...messages, message, seen], tools });
assert.equal(told.choices[0].finish_reason, "length");

// A response continues a stored one.
const first = await client.responses.create({ model: "any", input: "Honk?", max_output_tokens: 8 });
const second = await client.responses.create({
  model: "any",
  input: "And then?",
  max_output_tokens: 8,
  previous_response_id: first.id,
});
assert.equal(second.previous_response_id, first.id);

// A stream that the client leaves does not hold up the next request.
const left = await client.completions.create({ model: "any", prompt: "a", max_tokens: 20000, stream: true });
for await (const _ of left) break;
assert.ok((await client.models.list()).data.length);

// fetch, over connections that are kept alive.
const headers = { "Content-Type": "application/json", Authorization: `Bearer ${apiKey}` };
for (let n = 0; n < 3; n++) {
  const body = JSON.stringify({ prompt: "Honk", max_tokens: 4, stream: true });
  const response = await fetch(`${baseURL}/completions`, { method: "POST", headers, body });
  assert.match(await response.text(), /data: \[DONE\]\n\n$/);
}
