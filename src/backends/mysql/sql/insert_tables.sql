-- One row for each lock that is held, gone when it is released. Times: microseconds since
-- the epoch (UTC). The token is stored as its SHA-256.
CREATE TABLE IF NOT EXISTS dlock_inserts (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  token VARBINARY(32) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  holds INT UNSIGNED NOT NULL,
  since BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  keep BIGINT NOT NULL COMMENT 'stays taken until then, released or not',
  owner VARBINARY(800) NOT NULL,
  KEY expires (expires)
) ENGINE = InnoDB;
-- The last fence of each lock that ever was.
CREATE TABLE IF NOT EXISTS dlock_fences (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  fence BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;
