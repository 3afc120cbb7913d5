"""Calls of the console's pages: a method of this server's gRPC services, as JSON, over the HTTP port.

    POST /console/call ──▶ call_messages.py ──▶ LocalCall ──▶ CheckedHandler ──▶ GrpcGuard ──▶ the service
      (the page, JSON)        (pure)           (in this process)         (who, what, quotas, audit)    (Admin, …)

There is one way in which a page asks for data or changes something: it names a method of `SERVICES`, gives its request
in the JSON of protobuf, and gets the replies in the same form. What answers is the handler that answers gRPC, with all
that is before it, so nothing here decides who may do what: a new method is there for pages as soon as it has its row in
the access matrix, and a router forwards what it forwards anyway.

What holds:

- L1 A call is let in, counted against quotas, audited, measured and refused by the code of a gRPC call, by the same
     header. Its caller's address is the browser's.
- L2 No page of another server makes a browser call: `HttpEndpoint` refuses its origin, and the content type of a form.
- L3 A call takes bounded memory and time: its body by `HttpLimits`, its replies by `REPLY_BYTES_MAX`, a stream of
     replies by the number of messages that was asked for, all of it by a deadline. `calls_max` are under way at once.
- L4 Whatever is sent, the answer is a document or a typed error of ours, as JSON.

What is not here: streams that last (`/events` is the only one), and calls of the data plane, whose values have no bound
that a page could show (`duramen.v1.Console` has the ones for pages).

Reading order: `message_document.py`, `call_messages.py`, `local_call.py`, `console_calls.py`.
"""
