GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_inserts TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_fences TO {account};
