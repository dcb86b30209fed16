DELETE FROM dlock_rows WHERE name = {name};
