GRANT SELECT, INSERT, UPDATE ON {database}.shedlock TO {account};
