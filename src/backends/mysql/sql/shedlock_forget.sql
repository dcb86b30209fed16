DELETE FROM shedlock WHERE name = _utf8mb4 {name};
