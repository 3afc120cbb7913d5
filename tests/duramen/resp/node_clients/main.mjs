// Programs of somebody who uses Redis from Node, by node-redis and by ioredis: they run against a node of a cluster,
// whose port is the first argument, and say what differs from what they expect.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { createCluster } from "redis";

const port = Number(process.argv[2]);
const prefix = process.argv[3];
const count = 60;
const names = (kind) => Array.from({ length: count }, (_, number) => `${prefix}-${kind}:${number}`).sort();

async function nodeRedis() {
  const client = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
  await client.connect();
  const keys = names("node");
  await Promise.all(keys.map((key) => client.set(key, "v")));
  assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), keys.map(() => "v"));
  assert.equal(await client.incr(`${prefix}-counter`), 1);
  const found = [];
  let size = 0;
  // It lists a node once for each of its ranges of slots.
  for (const master of new Set(client.masters)) {
    const node = await client.nodeClient(master);
    found.push(...(await node.keys(`${prefix}-node:*`)));
    size += await node.dbSize();
  }
  assert.deepEqual(found.sort(), keys, "the masters' keys are all keys, each once");
  assert.ok(size >= count);
  const commands = await (await client.nodeClient(client.masters[0])).command();
  assert.ok(commands.some((command) => command.name === "dbsize" && command.flags.has("readonly")));
  await client.quit();
  return size;
}

async function ioredis() {
  const client = new Redis.Cluster([{ host: "127.0.0.1", port }]);
  const keys = names("io");
  await Promise.all(keys.map((key) => client.set(key, "v")));
  assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), keys.map(() => "v"));
  assert.deepEqual(await client.multi().set(keys[0], 1).incr(keys[0]).exec(), [[null, "OK"], [null, 2]]);
  const parts = await Promise.all(client.nodes("master").map((node) => node.keys(`${prefix}-io:*`)));
  assert.deepEqual(parts.flat().sort(), keys, "the masters' keys are all keys, each once");
  const sizes = await Promise.all(client.nodes("master").map((node) => node.dbsize()));
  await client.quit();
  return sizes.reduce((total, size) => total + size, 0);
}

const before = await nodeRedis();
assert.equal(await ioredis(), before + count);
console.log("all as expected");
