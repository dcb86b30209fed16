DELETE FROM dlock_sessions WHERE strategy = {strategy} AND name = {name};
