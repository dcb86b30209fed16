GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_rows TO {account};
{session_grants}
