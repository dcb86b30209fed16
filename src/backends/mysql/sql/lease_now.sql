-- What other texts expect to be set; more of it may follow.
SET @now = {now}, @me = 18446744073709551615, @place = 0, @first = NULL, @wanted = NULL, @front = 0,
  @fence = NULL, @version = NULL, @holder = '', @held = 0, @rest = 0, @mine = 0, @asleep = 0,
  @done = 0, @next = NULL, @dead = 0, @old = NULL, @open = NULL, @inline = 0, @ahead = 0
