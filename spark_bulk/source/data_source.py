"""`format("duramen")`: what Spark asks for, and who does it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spark_bulk.runtime.waiting import wait_for
from spark_bulk.source.log.log_reader import LogReader, LogStreamReader
from spark_bulk.source.model.catalog_tables import carried_options, catalog_options, options_comment, with_options
from spark_bulk.source.model.columns import log_ddl, table_ddl
from spark_bulk.source.model.options import ReadOptions, parse_read_options, parse_write_options
from spark_bulk.source.model.row_columns import row_columns
from spark_bulk.source.table.table_reader import TableReader, find_place, row_definition
from spark_bulk.source.writes.writer import TableBatchWriter, TableStreamWriter

__all__ = ["DuramenDataSource"]


class DuramenDataSource(DataSource):
    """A Duramen table, or its log. Options: see `spark_bulk.source`."""

    @classmethod
    def name(cls) -> str:
        """As in `format("duramen")`."""
        return "duramen"

    def schema(self) -> str | StructType:
        """The columns, where the user names none. Those of rows are what the table's newest schema says, so a server is
        asked.
        """
        of_catalog = catalog_options(self.options)
        options = parse_read_options(self.options if of_catalog is None else of_catalog)
        if not options.log and options.values in (None, "rows"):
            definition = row_definition(wait_for(find_place(options)), options)
            if definition is not None:
                return _struct(row_columns(definition), of_catalog)
        if options.log:
            ddl = log_ddl(options.keys, options.values or "bytes")
        else:
            ddl = table_ddl(options.keys, options.values or "bytes", options.json_schema)
        return ddl if of_catalog is None else with_options(ddl, of_catalog)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = self._read_options(schema)
        return (LogReader if options.log else TableReader)(options, _arrow(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        """For `spark.readStream`."""
        return LogStreamReader(self._read_options(schema), _arrow(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        return TableBatchWriter(parse_write_options(self.options), _arrow(schema), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """For `df.writeStream`."""
        return TableStreamWriter(parse_write_options(self.options), _arrow(schema), overwrite=overwrite)

    def _read_options(self, schema: StructType) -> ReadOptions:
        """What the query says; where it names no table, also what the catalog's table carries."""
        options = {name.lower(): value for name, value in self.options.items()}
        if not {"at", "table"} & options.keys():
            options = carried_options(field.metadata.get("comment", "") for field in schema) | options
        return parse_read_options(options)


def _struct(columns: pa.Schema, of_catalog: Mapping[str, str] | None) -> StructType:
    """Columns as Spark's own type; the first one carries the options of a catalog's table."""
    found = from_arrow_schema(columns)
    if of_catalog is not None:
        found[0].metadata["comment"] = options_comment(of_catalog)
    return found


def _arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark compares batches with."""
    return to_arrow_schema(schema, timezone="UTC")
