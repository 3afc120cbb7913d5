"""How a row goes to `fastavro` and comes back: checked by us, encoded by it.

`fastavro` takes more than a type of Avro has: any value for a boolean, naive times as the machine's, what is too wide
for an int. So each type has a **plan**: does a value fit as it is, what is it refined to where it does not, and what
is made of what was read.

    row ── quick ────▶ bytes, where each value is of exactly its field's plain type; else the row goes on
    row ── prepare ──▶ its own dict, or a new one where a field is converted ── fastavro ──▶ bytes
    row ── refine ───▶ the slow way of the same: widens, fills in defaults, or raises `InvalidRow` with field and value

What holds:

- What `prepare` lets pass, `refine` returns unchanged.
- What the quick encoding takes are rows that `prepare` lets pass, and its bytes are those of fastavro. So are the
  values of the quick decoding.
- What is written is what is read back: an int is no bool, no digit of a decimal and no microsecond is cut off.
- A plan is made of the table's schema. A class whose fields are others is refused then, by the field (`InvalidSchema`).

Reading order: `refusals.py`, `value_plan.py` (what a plan is), `scalar_plans.py`, `time_plans.py`, `decimal_plan.py`,
`compound_plans.py` (enums, lists, maps, unions), `default_values.py`, `record_plan.py` (records and the generated
`prepare`), `planner.py` (from a schema and a hint to a plan), `quick_encoding.py`,
`quick_decoding.py`.
"""
