SELECT name FROM dlock_sessions WHERE strategy = {strategy} GROUP BY name;
