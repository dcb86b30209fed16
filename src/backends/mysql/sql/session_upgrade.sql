-- A table that was made before holds had an end in it.
ALTER TABLE dlock_sessions
  ADD COLUMN lease BIGINT NOT NULL DEFAULT 0 COMMENT 'microseconds from a renewal to dead_by',
  ADD COLUMN dead_by BIGINT NOT NULL DEFAULT 0 COMMENT 'its command is dead by then; 0: it is dead';
