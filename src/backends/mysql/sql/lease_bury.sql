DELETE FROM dlock_queue WHERE id IN ({ids});
