-- The statements of `dlock check`.

-- name: facts
-- Facts about the server (see check.c), without those that it does not have, and its clock.
SELECT VARIABLE_NAME, VARIABLE_VALUE
  FROM /*M! information_schema.GLOBAL_VARIABLES *//*!50700 performance_schema.global_variables */
  WHERE VARIABLE_NAME IN ('version', 'innodb_flush_log_at_trx_commit', 'group_replication_group_name')
UNION ALL SELECT VARIABLE_NAME, VARIABLE_VALUE
  FROM /*M! information_schema.SESSION_STATUS *//*!50700 performance_schema.session_status */
  WHERE VARIABLE_NAME IN ('Ssl_cipher', 'wsrep_cluster_size')
UNION ALL SELECT 'server', /*M! 'MariaDB ' *//*!50700 'MySQL ' */
UNION ALL SELECT 'too_old', 1 /*M!100300 - 1 *//*!50700 - 1 */
UNION ALL SELECT 'clock', {now}

-- name: group_facts
-- How many members a group has. A common account may not see this.
SELECT 'members', COUNT(*) FROM performance_schema.replication_group_members;
