// client.mjs sdk|client WIRE ACT REPO: lists and calls every tool of `act mcp` with an official client of npm, cancels one
// call, and goes on after the server was killed. `sdk` speaks 2025-11-25, `client` 2026-07-28.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const [which, wire, act, repo] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const versions = { sdk: '2025-11-25', client: '2026-07-28' };

async function connect(more = []) {
  const { Client } = which === 'sdk'
    ? await import('@modelcontextprotocol/sdk/client/index.js')
    : await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = which === 'sdk'
    ? await import('@modelcontextprotocol/sdk/client/stdio.js')
    : await import('@modelcontextprotocol/client/stdio');
  const options = which === 'sdk' ? {} : { versionNegotiation: { mode: { pin: versions.client } } };
  const client = new Client({ name: 'act-test', version: '1' }, options);
  const transport = new StdioClientTransport({
    command: 'python3',
    args: [path.join(here, 'recorder.py'), wire, act, 'mcp', '--repo', repo, ...more],
    env: process.env,
  });
  await client.connect(transport);
  return client;
}

const pid = () => Number(fs.readFileSync(`${wire}.pid`, 'utf8'));
const call = async (client, name, args = {}, options = {}) => {
  const params = { name, arguments: args };
  const result = which === 'sdk'
    ? await client.callTool(params, undefined, options)
    : await client.callTool(params, options);
  return { value: result.structuredContent, isError: result.isError === true };
};

let client = await connect(['--tools', 'all']);
const { tools } = await client.listTools();
assert.deepEqual(
  tools.map((tool) => tool.name),
  ['verify', 'status', 'logs', 'report', 'claim', 'cancel', 'run', 'dry_run', 'apply'],
);

const green = (await call(client, 'verify')).value;
assert.equal(green.verdict, 'PASS', JSON.stringify(green));
const again = (await call(client, 'verify')).value;
assert.equal(again.run_id, green.run_id);
assert.equal(again.reused, true);
const seen = [];
const fresh = (await call(client, 'verify', { fresh: true }, { onprogress: (one) => seen.push(one) })).value;
assert.notEqual(fresh.run_id, green.run_id);
assert.ok(seen.length > 0, 'progress of a call that asked for it');
assert.match((await call(client, 'logs', { run: green.run_id })).value.log, /the answer/);
assert.equal((await call(client, 'claim', { run: green.run_id })).value._type, 'https://in-toto.io/Statement/v1');
assert.ok((await call(client, 'status')).value.repo);
for (const [name, args] of [['report', {}], ['run', { text: 'x' }], ['dry_run', { text: 'x' }], ['apply', {}]]) {
  const { value, isError } = await call(client, name, args);
  assert.ok(isError && typeof value.code === 'string' && typeof value.exit_code === 'number', `${name}: ${JSON.stringify(value)}`);
}

fs.writeFileSync(path.join(repo, 'slow'), '');
const running = (await call(client, 'verify', { wait_s: 1 })).value;
assert.equal(running.state, 'running');
assert.equal((await call(client, 'status', { id: running.id, wait_s: 1 })).value.state, 'running');
assert.equal((await call(client, 'cancel', { id: running.id })).value.state, 'cancelled');
const abort = new AbortController();
const aborted = call(client, 'verify', {}, { signal: abort.signal });
setTimeout(() => abort.abort(), 1500);
await assert.rejects(aborted);

process.kill(pid(), 'SIGKILL');
await assert.rejects(call(client, 'status', {}, { timeout: 20000 }));
await client.close();
fs.rmSync(path.join(repo, 'slow'));
client = await connect();
assert.equal((await call(client, 'verify')).value.verdict, 'PASS');
await client.close();

const spoken = fs.readFileSync(wire, 'utf8');
assert.ok(spoken.includes(`"${versions[which]}"`), 'the wire shows the revision');
assert.equal(spoken.includes('"initialize"'), which === 'sdk');
console.log(`${which}: ${versions[which]}, ${tools.length} tools`);
process.exit(0);
