-- The queue of a lock. An entry waits (its fence is 0) or holds. It may hold if there are no entries
-- before it, or if all of them have its mode and that mode is not exclusive.
--
-- The row in dlock_names is the mutex of one lock. Each request that adds, takes or removes an entry
-- locks this row first, and decides in later statements, which see what others have committed: the
-- snapshot of a statement is taken when it begins. A request is one packet, and so one transaction,
-- which the server ends with the last statement, or rolls back with the first one that fails.

-- name: tables
-- strategy is that of the URI. fence in dlock_names is the last number drawn: it grows, and is the
-- clock in microseconds where it can be. token is the SHA-256 of the token, place the number drawn on
-- arrival; mode 0: exclusive, -1: shared, N: one of N slots; fence 0: it waits, else the number drawn
-- when it took the lock. pid is the connection that listens, or that has the advisory lock, and home
-- the start of its server, or -infinity behind a pooler.
CREATE TABLE IF NOT EXISTS dlock_names (
  strategy text COLLATE "C", name text COLLATE "C", fence bigint NOT NULL,
  PRIMARY KEY (strategy, name)
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS dlock_entries (
  strategy text COLLATE "C", name text COLLATE "C", token text COLLATE "C",
  place bigint NOT NULL, mode integer NOT NULL, fence bigint NOT NULL, expires timestamptz NOT NULL,
  pid integer NOT NULL, home timestamptz NOT NULL, owner text NOT NULL,
  PRIMARY KEY (strategy, name, token)
) WITH (fillfactor = 50);

-- name: make_tables
-- Two clients that make a table at once would collide in the catalogue.
SELECT pg_advisory_xact_lock(hashtextextended('dlock_entries', 0));
{create}

-- name: grants
GRANT SELECT, INSERT, UPDATE, DELETE ON dlock_names, dlock_entries TO {user};

-- name: lock
strategy = {strategy} AND name = {name}

-- name: clock
(extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: until
clock_timestamp() + {ttl} * interval '1 ms'

-- name: begin
-- A limit of time that ends a COMMIT while a standby is awaited is only a warning, and the commit is
-- there: so there is no limit, and the warning is not hidden. The mode of default_transaction_read_only
-- stays, because an administrator may have set it to keep writers out. Who gives up closes the connection,
-- which the server does not notice while it waits for the mutex: {limit} ends that wait.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = {limit};
SET LOCAL client_min_messages = warning;

-- name: broken
-- The connection of an entry is gone. The list is read once for all entries, into a hash: an array would be
-- searched from its begin for each.
(q.home = pg_postmaster_start_time() AND q.pid NOT IN (
  SELECT COALESCE(pg_stat_get_backend_pid(b), 0) FROM pg_stat_get_backend_idset() b))

-- name: dead
q.fence = 0 AND {broken}

-- name: listen
-- Again in each request of a waiter, because a new connection does not listen yet.
LISTEN {channel};

-- name: wake
-- Wakes the first waiter, which may take the lock, and the second one, which watches the first.
SELECT count(pg_notify('dlock_' || left(token, 32), '')) FROM (
  SELECT token FROM dlock_entries q WHERE {lock} AND fence = 0 AND token <> {token} AND NOT ({dead})
    ORDER BY place LIMIT 2) first

-- name: draw
-- Locks the mutex, and draws a number.
INSERT INTO dlock_names AS n (strategy, name, fence) VALUES ({strategy}, {name}, {clock})
  ON CONFLICT (strategy, name) DO UPDATE SET fence = GREATEST(n.fence + 1, excluded.fence);

-- name: home
-- {backend} is the process that answered the login. Behind a pooler, each transaction may have
-- another one.
CASE pg_backend_pid() WHEN {backend} THEN pg_postmaster_start_time() ELSE '-infinity' END

-- name: try
-- Takes a lock if no entry is before that of this token: no row if there is one. It is what take does
-- in this case, and takes half of its time.
{begin}
{draw}
INSERT INTO dlock_entries AS e
  SELECT strategy, name, {token}, fence, {mode}, fence, {until}, pg_backend_pid(), {home}, {owner}
  FROM dlock_names n WHERE {lock} AND CASE WHEN EXISTS (SELECT FROM dlock_entries q WHERE {lock} AND
      token <> {token} AND place < COALESCE({my_place}, n.fence)) THEN false ELSE {door} END
  ON CONFLICT (strategy, name, token) DO UPDATE SET pid = excluded.pid, home = excluded.home,
    expires = excluded.expires, fence = CASE WHEN e.fence > 0 THEN e.fence ELSE excluded.fence END
  RETURNING fence;

-- name: my_place
(SELECT place FROM dlock_entries WHERE {lock} AND token = {token})

-- name: take
-- Adds an entry, unless this token has one, and takes the lock if the entries before it allow this.
-- Expired entries are deleted first, so whoever is still there afterwards counts; those behind it delay
-- only others. An earlier request of this token, whose answer was lost, may have taken the lock: then its
-- lease is extended.
{begin}
{draw}
{listening}
WITH pruned AS (
  DELETE FROM dlock_entries q WHERE {lock} AND (place <= {my_place}) IS NOT false AND
    (expires <= clock_timestamp() OR token <> {token} AND (fence = 0 AND token = {late} OR {dead})) RETURNING token)
SELECT set_config('dlock.pruned', count(*)::text, true) FROM pruned;
INSERT INTO dlock_entries AS e
  SELECT strategy, name, {token}, fence, {mode}, 0, clock_timestamp() + {alive} * interval '1 ms', pg_backend_pid(),
    {home}, {owner}
  FROM dlock_names WHERE {lock}
  ON CONFLICT (strategy, name, token) DO UPDATE SET pid = excluded.pid, home = excluded.home,
    expires = GREATEST(e.expires, excluded.expires);
WITH entries AS (
  SELECT *, count(*) OVER b AS before, count(*) FILTER (WHERE fence = 0) OVER b AS waiting,
      min(mode) OVER b AS low, max(mode) OVER b AS high,
      min(expires) FILTER (WHERE fence > 0) OVER b AS ends,
      max(mode) FILTER (WHERE fence > 0) OVER b AS held
    FROM dlock_entries WHERE {lock} AND place <= {my_place}
    WINDOW b AS (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
able AS (
  SELECT *, before = 0 OR
      mode <> 0 AND low = mode AND high = mode AND (mode < 0 OR before < mode) AS able FROM entries),
me AS (
  SELECT *, CASE WHEN able OR fence > 0 THEN {door} ELSE false END AS taken,
      CASE WHEN mode > 0 AND held > 0 AND held <> mode THEN held ELSE 0 END AS slots
    FROM able WHERE token = {token}),
put AS (
  UPDATE dlock_entries e SET expires = {until}, fence =
      CASE WHEN e.fence > 0 THEN e.fence ELSE (SELECT fence FROM dlock_names WHERE {lock}) END
    WHERE {lock} AND token = {token} AND (SELECT taken FROM me) RETURNING e.fence),
gone AS (
  DELETE FROM dlock_entries WHERE {lock} AND token = {token} AND
    (SELECT NOT taken AND (NOT {queue} OR slots > 0) FROM me))
SELECT COALESCE((SELECT fence FROM put), 0), waiting,
    COALESCE((extract(epoch FROM ends - clock_timestamp()) * 1000)::bigint, -1),
    (able AND NOT taken OR pg_backend_pid() <> {backend})::int, slots,
    COALESCE((SELECT a.token FROM able a WHERE a.able AND a.fence = 0 AND a.place < me.place AND
      a.expires < clock_timestamp() + ({alive} - {patience}) * interval '1 ms' ORDER BY a.place LIMIT 1), ''),
    CASE WHEN taken AND mode <> 0 OR current_setting('dlock.pruned') <> '0' THEN ({wake}) END
  FROM me;

-- name: stay
-- Notes that a waiter is alive that has so many others before it, and is woken over this connection.
{begin}
UPDATE dlock_entries e SET expires = clock_timestamp() + {alive} * interval '1 ms'
  WHERE {lock} AND token = {token} AND fence = 0 AND expires > clock_timestamp() AND
    pid = pg_backend_pid() AND pid = {backend} AND (SELECT count(*) FROM (SELECT FROM dlock_entries
      WHERE {lock} AND place < e.place AND fence = 0 AND expires > clock_timestamp() LIMIT {far}) f) = {far}
  RETURNING 1;

-- name: end_stale
-- Ends a connection that we have closed during a request, if its last statement has the digest of our
-- token: it could take a lock after its release. Later statements read the list of connections again.
SELECT count(pg_terminate_backend(pid)), pg_stat_clear_snapshot() FROM pg_stat_get_activity({stale})
  WHERE {stale} > 0 AND position({token} IN query) > 0;

-- name: renew
-- With another record, the lease may end before the time that waiters know.
{begin}
SELECT CASE WHEN {owner} IS NOT NULL THEN ({wake}) END;
UPDATE dlock_entries SET expires = {until}, owner = COALESCE({owner}, owner)
  WHERE {lock} AND token = {token} AND fence > 0 AND expires > clock_timestamp() AND {mine}
  RETURNING 1;

-- name: release
{begin}
{end_stale}
SELECT FROM dlock_names WHERE {lock} FOR NO KEY UPDATE;
{wake};
DELETE FROM dlock_entries WHERE {lock} AND token = {token}
  RETURNING (fence > 0 AND expires > clock_timestamp() AND {mine})::int, pid, 0, {open};

-- name: show
-- One row for each entry, or one without an entry.
SELECT n.fence, q.fence, q.mode, q.token,
    (extract(epoch FROM q.expires - clock_timestamp()) * 1000)::bigint,
    GREATEST(0, {clock} - CASE WHEN q.fence > 0 THEN q.fence ELSE q.place END) / 1000,
    q.owner, (q.token = {token})::int, (NOT {broken})::int, q.place
  FROM dlock_names n LEFT JOIN dlock_entries q ON q.strategy = n.strategy AND q.name = n.name AND
    q.expires > clock_timestamp() AND NOT ({dead})
  WHERE n.strategy = {strategy} AND n.name = {name}
{strangers}
  ORDER BY 10;

-- name: list
SELECT DISTINCT name FROM dlock_entries WHERE strategy = {strategy} AND expires > clock_timestamp();
