-- The server's clock: microseconds since the epoch. UTC_TIMESTAMP knows neither time
-- zones nor daylight saving.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
