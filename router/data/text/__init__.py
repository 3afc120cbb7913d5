"""Searches in the text indexes of a table: what is asked of the node here, and how answers become one."""
