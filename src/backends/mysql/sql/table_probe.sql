LOCK TABLES {table} {lock} {nowait};
UNLOCK TABLES;
