-- The first thing in every session: what the statements rely on, whatever the server's
-- defaults are. The time limits of statements, which go by different names, are for
-- users' queries; a waiter sleeps in one. @cluster: GET_LOCK is the node's alone
-- ({cluster} is left out where the server knows no such variable).
SET SESSION autocommit = 1, completion_type = 0, sql_mode = '', time_zone = '+00:00',
  wait_timeout = 86400, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
  /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */,
  @cluster = 0 {cluster};
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
