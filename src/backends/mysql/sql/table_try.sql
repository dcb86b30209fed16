-- Takes the table if it is free. The connection may be idle for so long: see session.h.
SET SESSION wait_timeout = {idle};
LOCK TABLES {table} {lock} {nowait};
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
