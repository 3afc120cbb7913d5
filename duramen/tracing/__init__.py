"""Traces and durations by OpenTelemetry: the library behind the seam `log_tier.tracing`.

    client     connect(…, traces=True)    the program's own tracer and meter     client_operations.py
    server     --traces otlp              spans of its own, to a collector       served_spans.py, export.py

A client with `traces=True` makes each call of a table a span `put flights` of the kind CLIENT, if the program's sampler
takes it, and counts its duration in the histogram `db.client.operation.duration`. Names and attributes are those of
OpenTelemetry's conventions for clients of databases. The operation begins in the thread and the context of the
program's call; what the client then sends carries the trace.

A server with `--traces otlp` continues the traces that arrive, and begins one for each call of a client that arrives
without one, as its sampler says. OpenTelemetry's own environment variables say where spans go and which calls are
traced (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME`, …).

- O1 Without being asked for, nothing here imports OpenTelemetry; asked for without the extra, the error says what to
     install.
- O2 A call that is not sampled goes the way that it goes without tracing, the fast paths included.
- O3 No call waits for a collector, or fails because of one. Spans that it does not take are lost, and the log says so
     once.
- O4 What a program has set up may raise (a sampler, a processor): it is logged, and changes no call.
- O5 What arrives in a header is a trace's identity or it is ignored. No more than 512 characters of it are looked at.

The Redis protocol carries no context. A server begins a trace for a share of what comes by it and has to wait: writes,
and reads that the data plane carries. It draws the share itself, as clients do, from the variables of OpenTelemetry's
samplers.

What is not here: spans of a watch as a call, of the table administration of a client; and baggage.

A server takes from OpenTelemetry its sampler, its resource and how a header is read. Its spans are plain values, and
become the bytes of OTLP when they are sent: a span by the SDK takes 65 µs to make and to encode, here 8, and a put has
seven.

Reading order: `operations.py` (the client's seam), `asked_for.py` (who imports what), `harmless.py`, `otel_spans.py`,
`client_operations.py`; of a server `otlp_bytes.py`, `served_spans.py`, `otlp_http.py`, `export.py`.
"""
