-- The statements of `dlock check` for all strategies.

-- name: check_clock
SELECT {now};

-- name: check_variables
-- Facts about the server (see check.c). SHOW omits variables that a server does not have; a SELECT
-- would fail.
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only',
  'innodb_read_only', 'max_connections', 'log_bin', 'binlog_format',
  'innodb_flush_log_at_trx_commit', 'group_replication_group_name');

-- name: check_status
SHOW SESSION STATUS WHERE Variable_name IN ('Threads_connected', 'Ssl_cipher', 'wsrep_ready',
  'wsrep_cluster_size');

-- name: check_group
-- The members of Group Replication, the state of this one, and whether it is outside of the group.
SELECT COUNT(*), MAX(IF(member_id IN ('', @@server_uuid), member_state, '')), ({outside})
  FROM performance_schema.replication_group_members;
