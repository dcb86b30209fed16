-- The lock is ours, but the command of an earlier holder may still be alive. Who hangs now is
-- disconnected after a few seconds, as one who waits for the lock.
SET SESSION wait_timeout = {hung};
SELECT {waiter} SLEEP({nap} / 1000) = 0, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout;
