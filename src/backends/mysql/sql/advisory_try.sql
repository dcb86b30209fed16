-- Takes the lock if it is free. The connection may be idle for so long: see session.h.
SET SESSION wait_timeout = {idle};
SELECT GET_LOCK({key}, 0), CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
