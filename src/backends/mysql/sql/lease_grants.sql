GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_locks TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_holders TO {account};
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_queue TO {account};
