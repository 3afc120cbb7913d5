"""Real Kafka brokers on this machine, one or three, for trying things and for tests.

`fetch` gets the broker's jars from Maven, once. `start` runs brokers in the foreground; `make kafka` is both. Tests and
benchmarks drive the same class, `Brokers`, and do with it what an operator fears: kill, pause, restart.

**What it promises.**

- A broker is Apache Kafka's own, unchanged, in KRaft mode: every process is a broker and a controller.
- It listens on 127.0.0.1 only, and nobody needs a password. That is for one machine; a real cluster is another matter.
- It answers when `wait_ready` returns, and no java outlives the process that started it, however that process ends.
- Three brokers are set up so that one may be lost: replication 3, `min.insync.replicas` 2, no unclean election. The
  time-outs are those of a machine whose network does not fail, so that a fail-over takes seconds, not half a minute.

**What it does not do.** It makes no topics; the writers make them. It is no example of a production setting: memory is
small and start-up is what is tuned.

**In which order to read.** `properties.py` is the text of a broker's settings; `ports.py` finds ports that stay ours;
`brokers.py` runs the processes, and `guard.py` ends them when we cannot.
"""
