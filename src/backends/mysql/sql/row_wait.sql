-- Gets in line. Who hangs when it gets the lock is disconnected after a few seconds.
SET SESSION wait_timeout = {hung}, innodb_lock_wait_timeout = {limit};
START TRANSACTION;
SELECT {waiter} 1, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout FROM dlock_rows
  WHERE name = {name} {lock};
