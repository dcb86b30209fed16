SELECT @version, @mine, @fence, @holds, @held, @rest, @age, @owner, @holder, @open,
  @first, @inline, @asleep, @ahead, @ticket, @done, @next, @dead, @old, @cluster;
