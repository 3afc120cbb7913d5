"""The read-only part of the Schema Registry's HTTP interface, at every server's HTTP port.

A stored row is Confluent's framing: a zero, a number, Avro's binary. Deserializers that know the framing ask a registry
which schema the number stands for. Here every server answers that, from its own copy of the cluster map:

    GET /schemas/ids/7 ──▶ SchemaRegistry ──▶ RegistryView.answer() ──▶ {"schema": "…"}
                           who, fresh enough     (pure)

The numbers are the catalog's (`log_tier.rows.definitions.numbering`). A subject is a table's topic with `-value`, and
its versions 1, 2, … are the schemas of the table's definition in their order. The name of the topic is the table's own
name, and where the log is Kafka its name there (`duramen.flights`), as Kafka's clients know no other.

What holds:

- R1 Only tables with rows have subjects. A key is no Avro, so there is no subject with `-key`.
- R2 A schema is shown to whom a table that has it is shown. To others it is not there, in the same words. Schemas of
     dropped tables are shown to who administers the cluster, and to everybody while there are no users.
- R3 What this server does not know is asked of the catalog's end before the answer is that it is not there: a row of a
     table that another server has just made may be read already.
- R4 A request costs one look-up. What all look-ups need is derived once for each change of the tables' definitions.
- R5 Nothing here changes anything. A request that would is refused, and the refusal says what to do.
- R6 A schema that is sent to `/compatibility` is judged as `alter` judges it: by the same rules, and for all versions
     of a subject at once by the same schemas.

What is not here: registering schemas, which come with their tables; other types than Avro; references, contexts, soft
deletion, rules and metadata; and asking the registry of another program for the schemas of its topics.

Reading order: `subjects.py` (subjects and numbers of a map), `registry_answer.py`, `compatibility.py`,
`registry_view.py` (from a path to its answer), `schema_registry.py` (the routes).
"""
