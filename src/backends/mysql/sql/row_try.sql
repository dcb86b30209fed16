-- Takes the row's lock if it is free; without a row it makes none, for a transaction that
-- had made it could not be told from one that holds it. The connection may be idle for so
-- long: see session.h. MariaDB has more limits of that kind, for transactions.
SET SESSION wait_timeout = {idle}
  /*M!100300 , idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
  idle_write_transaction_timeout = 0 */;
START TRANSACTION;
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, {wsrep},
  @@SESSION.wait_timeout FROM dlock_rows
  WHERE name = {name} {lock} {nowait};
