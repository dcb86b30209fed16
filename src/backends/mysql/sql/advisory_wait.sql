-- Gets in line. Who hangs when it gets the lock is disconnected after a few seconds.
SET SESSION wait_timeout = {hung};
SELECT {waiter} GET_LOCK({key}, {limit}), CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
