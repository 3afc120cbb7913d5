// Cities: what a Node program does with duramen.v1.KV.  npm ci && node cities.js localhost:7080 [another server ...]
"use strict";
const path = require("path");
const { promisify } = require("util");
const grpc = require("@grpc/grpc-js");
const protobuf = require("protobufjs");
const loader = require("@grpc/proto-loader");

const protos = path.join(__dirname, "../../../protos");
const definition = loader.loadSync(["duramen/v1/kv.proto", "duramen/v1/tables.proto"], {
  includeDirs: [protos], keepCase: true, longs: String, defaults: true, oneofs: true });
const { KV, Tables } = grpc.loadPackageDefinition(definition).duramen.v1;

// What grpc-js leaves packed: the details of an error, as in google/rpc/status.proto and error_details.proto.
const rpc = protobuf.parse(`syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }`).root;

function errorInfo(error) {
  const [packed] = error.metadata.get("grpc-status-details-bin");
  const any = rpc.lookupType("Status").decode(packed).details.find((each) => each.typeUrl.endsWith("ErrorInfo"));
  return rpc.lookupType("ErrorInfo").decode(any.value);
}

const table = "cities";
const calling = (stub, method) => {
  const call = promisify(stub[method].bind(stub));
  return (request) => call(request, { deadline: Date.now() + 5000 });
};

// Write at one server after the other until one answers: this put may be made twice.
async function putAgain(servers, request) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await calling(servers[attempt % servers.length], "Put")(request);
    } catch (error) {
      const { UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED } = grpc.status; // grpc-js: the last where a connection breaks
      const passing = [UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED].includes(error.code);
      if (attempt === 50 || !passing) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function main(addresses) {
  const servers = [];
  for (const at of addresses) {
    const tables = new Tables(at, grpc.credentials.createInsecure());
    await calling(tables, "Create")({ name: table, partitions: 6 }).catch((error) => {
      if (error.code !== grpc.status.ALREADY_EXISTS) throw error;
    });
    servers.push(new KV(at, grpc.credentials.createInsecure()));
  }
  const [here, there] = [servers[0], servers[servers.length - 1]];
  const watch = here.Watch({ table }).on("error", () => {}); // it ends with its server; see docs/GRPC.md
  const messages = watch[Symbol.asyncIterator]();
  await messages.next(); // the watch has begun

  const put = await calling(here, "Put")({ table, key: Buffer.from("Oslo"), value: Buffer.from("Norway") });
  const got = await calling(there, "Get")({ table, key: Buffer.from("Oslo"), after: put.token });
  console.log(`get ${got.value} ${got.version === put.version}`);
  const refused = await calling(here, "Put")({ table, key: Buffer.from("Oslo"), if_absent: true }).catch(errorInfo);
  console.log(`refused ${refused.reason} ${refused.metadata.actual === put.version}`);
  const { value: { changes: [change] } } = await messages.next();
  console.log(`watch ${change.key} ${change.value}`);

  let token = put.token;
  for (let n = 0; n < 200; n++) {
    const key = Buffer.from(`row${String(n).padStart(3, "0")}`);
    ({ token } = await putAgain(servers, { table, key, value: key, after: token }));
    console.log(`put ${key}`);
  }
  let rows = 0;
  for await (const page of there.Scan({ table, prefix: Buffer.from("row"), after: token })) rows += page.entries.length;
  console.log(`scan ${rows}`);
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => { console.error(error); process.exit(1); });
