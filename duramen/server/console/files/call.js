// Calls of this server's methods: what a page asks for, and what it has done. docs/FORMATS.md describes the JSON.

import { send } from "./feed.js";

// A call that failed. `code`: one of Duramen's errors, such as "table_not_found"; "disconnected" where no answer came.
export class CallError extends Error {
  constructor(status, document) {
    super(String(document.error ?? `the server answers ${status}`));
    this.status = status;
    this.code = String(document.code ?? "");
    this.retryable = Boolean(document.retryable);
    this.fields = document.fields ?? {};
  }
}

// The replies of a method ("Admin/Nodes"), and whether its stream had more of them. Raises `CallError`; what `signal`
// aborts ends with the browser's `AbortError`.
export async function replies(method, request = {}, { messages = 1, timeout_s = 5, signal } = {}) {
  let reply;
  let document;
  try {
    reply = await send("/console/call", { format: 1, method, request, messages, timeout_s }, signal);
    document = await reply.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new CallError(0, { error: "the server does not answer", code: "disconnected", retryable: true });
  }
  if (!reply.ok) throw new CallError(reply.status, document);
  return { replies: document.replies, more: document.more };
}

// The only reply of a method.
export async function call(method, request = {}, options = {}) {
  return (await replies(method, request, options)).replies[0];
}
