DELETE FROM dlock_fences WHERE name = {name};
