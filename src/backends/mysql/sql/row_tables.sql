-- What is locked.
CREATE TABLE IF NOT EXISTS dlock_rows (
  name VARBINARY(200) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
{session_tables}
