{shedlock_zone}
UPDATE shedlock SET lock_until = UTC_TIMESTAMP(3)
  WHERE name = _utf8mb4 {name} AND lock_until > UTC_TIMESTAMP(3);
