-- A name that will never be used again leaves no fence.
DELETE FROM dlock_locks WHERE name = {name} AND expires <= {now};
