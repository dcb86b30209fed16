-- One row for each lock that ever was. Times: microseconds since the epoch (UTC). A lock
-- is free when expires has passed. mode: 0 exclusive, -1 shared, N: one of N slots. The
-- token is stored as its SHA-256, so that who reads the table cannot release.
CREATE TABLE IF NOT EXISTS dlock_locks (
  name VARBINARY(200) NOT NULL PRIMARY KEY,
  version BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'the last fence',
  mode INT NOT NULL DEFAULT 0,
  token VARBINARY(32) NOT NULL DEFAULT '' COMMENT 'of an exclusive holder',
  holds INT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'how often it was acquired',
  since BIGINT NOT NULL DEFAULT 0 COMMENT 'held since',
  expires BIGINT NOT NULL DEFAULT 0 COMMENT 'end of the last lease',
  keep BIGINT NOT NULL DEFAULT 0 COMMENT 'stays taken until then, released or not',
  freed BIGINT NOT NULL DEFAULT 0 COMMENT 'when a hold last came or went',
  owner VARBINARY(800) NOT NULL DEFAULT ''
) ENGINE = InnoDB;
-- Those who hold a lock together: shared, or in slots.
CREATE TABLE IF NOT EXISTS dlock_holders (
  name VARBINARY(200) NOT NULL,
  token VARBINARY(32) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  holds INT UNSIGNED NOT NULL,
  since BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  keep BIGINT NOT NULL,
  owner VARBINARY(800) NOT NULL,
  PRIMARY KEY (name, token)
) ENGINE = InnoDB;
-- Those who wait, in the order of id. place counts them within one lock, as they came.
CREATE TABLE IF NOT EXISTS dlock_queue (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARBINARY(200) NOT NULL,
  token VARBINARY(32) NOT NULL,
  mode INT NOT NULL,
  place BIGINT UNSIGNED NOT NULL,
  since BIGINT NOT NULL,
  seen BIGINT NOT NULL DEFAULT 0 COMMENT 'last look, where GET_LOCK is refused',
  asleep TINYINT NOT NULL DEFAULT 0 COMMENT 'did not come when it was its turn',
  owner VARBINARY(800) NOT NULL,
  UNIQUE KEY token (token),
  UNIQUE KEY name (name, id, asleep)
) ENGINE = InnoDB;
