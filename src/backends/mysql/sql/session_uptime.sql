-- Two columns, a name and seconds. Numbers of connections begin anew with the server.
SHOW GLOBAL STATUS LIKE 'Uptime';
