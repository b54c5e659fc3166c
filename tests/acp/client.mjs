// Runs whole sessions with `act acp`, with the protocol's own SDK as the client. The SDK checks every message by its schema.
//
//   node client.mjs ACT REPOSITORY       the environment selects the model and its script; see tests/system/acp.rs
//
// Prints one line for each story that came out, and exits with 1 at the first one that did not.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [act, repository] = process.argv.slice(2);
const { agent: methods, client: ours } = acp.methods;

/** Starts `act acp` and lets `story` speak with it. `permit` answers the questions to the person. */
async function connected(permit, story) {
  const child = spawn(act, ["acp"], { cwd: repository, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const updates = [];
  const questions = [];
  const app = acp
    .client({ name: "test" })
    .onNotification(ours.session.update, ({ params }) => void updates.push(params.update))
    .onRequest(ours.session.requestPermission, ({ params }) => {
      questions.push(params);
      const option = permit(params);
      return { outcome: option ? { outcome: "selected", optionId: option } : { outcome: "cancelled" } };
    });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (context) => {
    const answer = await context.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION });
    assert.equal(answer.protocolVersion, 1);
    await story({ context, updates, questions });
  });
  child.stdin.destroy();
  assert.equal(await ended, 0, "act acp ends with its client");
}

const open = async (context, mode) => {
  const session = await context.request(methods.session.new, { cwd: repository, mcpServers: [] });
  assert.deepEqual(session.modes.availableModes.map(({ id }) => id), ["run", "dry_run", "verify"]);
  await context.request(methods.session.setMode, { sessionId: session.sessionId, modeId: mode });
  return session.sessionId;
};
const prompt = (context, sessionId, text) =>
  context.request(methods.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
const said = (updates) =>
  updates
    .filter(({ sessionUpdate }) => sessionUpdate === "agent_message_chunk")
    .map(({ content }) => content.text)
    .join("");
const reject = ({ options }) => options.find(({ kind }) => kind === "reject_once").optionId;
const until = async (fits) => {
  while (!fits()) await new Promise((resolve) => setTimeout(resolve, 20));
};

let first;

await connected(reject, async ({ context, updates, questions }) => {
  first = await open(context, "run");
  const { stopReason } = await prompt(context, first, "write the answer");
  assert.equal(stopReason, "end_turn", said(updates));
  assert.match(said(updates), /\*\*SUCCESS\*\*: verified by `run_/);
  assert.equal(readFileSync(join(repository, "answer.txt"), "utf8"), "right\n");
  const plans = updates.filter(({ sessionUpdate }) => sessionUpdate === "plan");
  assert(plans.at(-1).entries.every(({ status }) => status === "completed"), JSON.stringify(plans.at(-1)));
  const edit = updates.find(({ kind }) => kind === "edit");
  assert.deepEqual(edit.content, [
    { type: "diff", path: join(repository, "answer.txt"), oldText: "none\n", newText: "right\n" },
  ]);
  const run = updates.find(({ kind, title }) => kind === "execute" && title.startsWith("Verify"));
  const end = updates.findLast(({ toolCallId }) => toolCallId === run.toolCallId);
  assert.equal(end.status, "completed");
  assert(updates.some(({ sessionUpdate, used }) => sessionUpdate === "usage_update" && used > 0));
  assert.deepEqual(questions, []);
  console.log("ran a task and followed it");
});

await connected(reject, async ({ context, updates, questions }) => {
  const session = await open(context, "run");
  const { stopReason } = await prompt(context, session, "write the settings of the editor");
  assert.equal(stopReason, "end_turn", said(updates));
  assert.equal(questions.length, 1);
  assert.match(questions[0].toolCall.title, /\.vscode\/settings\.json/);
  assert(!existsSync(join(repository, ".vscode")));
  console.log("refused a permission");
});

// The model of this task never answers, and a cancelled task may not have asked it yet: no task of the model comes after it.
await connected(reject, async ({ context, updates }) => {
  await context.request(methods.session.load, { sessionId: first, cwd: repository, mcpServers: [] });
  const plans = updates.filter(({ sessionUpdate }) => sessionUpdate === "plan");
  const cancelled = prompt(context, first, "and now wait");
  await until(() => updates.filter(({ sessionUpdate }) => sessionUpdate === "plan").length > plans.length);
  await assert.rejects(prompt(context, first, "at the same time"), /has not ended/);
  await context.notify(methods.session.cancel, { sessionId: first });
  assert.equal((await cancelled).stopReason, "cancelled");
  console.log("cancelled a task");
});

await connected(reject, async ({ context, updates }) => {
  const { sessions } = await context.request(methods.session.list, { cwd: repository });
  assert.equal(sessions.length, 2);
  assert(sessions.some(({ sessionId, title }) => sessionId === first && title === "write the answer"));
  await context.request(methods.session.load, { sessionId: first, cwd: repository, mcpServers: [] });
  const users = updates.filter(({ sessionUpdate }) => sessionUpdate === "user_message_chunk");
  assert.deepEqual(users.map(({ content }) => content.text), ["write the answer", "and now wait"]);
  assert.match(said(updates), /\*\*SUCCESS\*\*/);
  await assert.rejects(
    context.request(methods.session.load, { sessionId: "t-000000", cwd: repository, mcpServers: [] }),
    /there is no session/,
  );
  console.log("loaded a past session");

  const session = await open(context, "verify");
  const { stopReason } = await prompt(context, session, "ignored");
  assert.equal(stopReason, "end_turn");
  assert.match(said(updates), /\*\*PASS\*\*, `run_/);
  console.log("verified the tree");
});
