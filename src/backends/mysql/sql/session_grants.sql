GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_sessions TO {account};
