-- Who holds what lives with a connection, and the last fence. For each lock one row with
-- no sharer, which stays, and one more for each that shares it. The token is a digest.
CREATE TABLE IF NOT EXISTS dlock_sessions (
  strategy VARBINARY(16) NOT NULL,
  name VARBINARY(200) NOT NULL,
  sharer VARBINARY(32) NOT NULL,
  token VARBINARY(32) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL,
  connection BIGINT UNSIGNED NOT NULL,
  account VARBINARY(400) NOT NULL,
  since BIGINT NOT NULL COMMENT 'microseconds since 1970, UTC',
  until BIGINT NOT NULL COMMENT 'the same; 0: not by itself',
  count INT NOT NULL COMMENT 'how often acquired with the same token',
  holder VARBINARY(800) NOT NULL,
  lease BIGINT NOT NULL DEFAULT 0 COMMENT 'microseconds from a renewal to dead_by',
  dead_by BIGINT NOT NULL DEFAULT 0 COMMENT 'its command is dead by then; 0: it is dead',
  PRIMARY KEY (strategy, name, sharer)
) ENGINE = InnoDB;
