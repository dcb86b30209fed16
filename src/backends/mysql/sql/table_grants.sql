-- For each table to be locked SELECT is enough.
GRANT LOCK TABLES, SELECT ON {database}.* TO {account};
{session_grants}
