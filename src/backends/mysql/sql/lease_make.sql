-- A lock's row, when it has none yet.
INSERT IGNORE INTO dlock_locks (name) VALUES ({name});
