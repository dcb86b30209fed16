-- What `dlock check` locks.
CREATE TABLE IF NOT EXISTS dlock_probe (
  name VARBINARY(200) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
{session_tables}
