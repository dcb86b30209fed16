-- The row itself, in a transaction of its own.
ROLLBACK;
INSERT IGNORE INTO dlock_rows (name) VALUES ({name});
