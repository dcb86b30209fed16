-- The statements of `dlock check`.

-- name: facts
-- Facts about the server (see check.c), without those that it does not have, and its clock.
SELECT VARIABLE_NAME, VARIABLE_VALUE
  FROM /*M! information_schema.GLOBAL_VARIABLES *//*!50700 performance_schema.global_variables */
  WHERE VARIABLE_NAME IN ('version', 'read_only', 'innodb_read_only', 'max_connections', 'log_bin',
    'binlog_format', 'innodb_flush_log_at_trx_commit', 'group_replication_group_name')
UNION ALL SELECT VARIABLE_NAME, VARIABLE_VALUE
  FROM /*M! information_schema.SESSION_STATUS *//*!50700 performance_schema.session_status */
  WHERE VARIABLE_NAME IN ('Threads_connected', 'Ssl_cipher', 'wsrep_ready', 'wsrep_cluster_size')
UNION ALL SELECT 'server', /*M! 'MariaDB ' *//*!50700 'MySQL ' */
UNION ALL SELECT 'too_old', 1 /*M!100300 - 1 *//*!50700 - 1 */
UNION ALL SELECT 'clock', {now}

-- name: sleeps_here
-- Does a statement like that in which waiters sleep find the entry of its connection?
SELECT COUNT(*) FROM {with_before} AND w.token = {token} AND w.conn = CONNECTION_ID();

-- name: group_facts
-- The members of Group Replication, the state of this one, and whether it is outside of the group.
-- A common account may not see this.
SELECT 'members', CONCAT(COUNT(*), ' members, this one is ',
    MAX(IF(member_id IN ('', @@server_uuid), member_state, '')))
  FROM performance_schema.replication_group_members
UNION ALL SELECT 'outside', ({outside});
