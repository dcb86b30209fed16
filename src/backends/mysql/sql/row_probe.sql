START TRANSACTION;
SELECT 1 FROM dlock_rows WHERE name = {name} {lock} {nowait};
ROLLBACK;
