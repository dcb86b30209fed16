DELETE FROM dlock_inserts WHERE name = {name};
