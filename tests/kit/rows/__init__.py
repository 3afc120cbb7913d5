"""Classes of rows that tests share. Annotations are read in the module of their class, so they are at its top."""
