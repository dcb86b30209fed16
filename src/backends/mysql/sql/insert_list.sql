SELECT name FROM dlock_inserts FORCE INDEX (expires) WHERE expires > {now};
