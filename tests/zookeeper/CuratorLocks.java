// SPDX-License-Identifier: MIT
//
// Curator's locks, driven by lines, so that one JVM serves a whole suite:
//
//	CuratorLocks HOST:PORT,...
//
//	take WHO KIND PATH MS	WHO takes the lock at PATH, in a thread of its own; KIND is
//				mutex, read or write; says "WHO held" or, after MS, "WHO busy"
//	give WHO		gives it back; says "WHO free"
//	add WHO KIND PATH N FILE
//				N times: takes the lock, adds one to the number in FILE by
//				reading and writing it, gives it back; then "WHO done"
//
// It says "ready" when it is connected, and ends with its standard input.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryNTimes;

public final class CuratorLocks {
	private static CuratorFramework client;
	// Curator's locks belong to threads
	private static final Map<String, ExecutorService> threads = new HashMap<>();
	private static final Map<String, InterProcessLock> locks = new HashMap<>();

	private static InterProcessLock lock(String kind, String path) {
		switch (kind) {
		case "mutex":
			return new InterProcessMutex(client, path);
		case "read":
			return new InterProcessReadWriteLock(client, path).readLock();
		case "write":
			return new InterProcessReadWriteLock(client, path).writeLock();
		default:
			throw new IllegalArgumentException(kind);
		}
	}

	private static synchronized void say(String line) {
		System.out.println(line);
		System.out.flush();
	}

	private static void add(InterProcessLock lock, int times, Path file) throws Exception {
		for (int n = 0; n < times; n++) {
			lock.acquire();
			try {
				int number = Integer.parseInt(Files.readString(file).trim());
				Thread.sleep(1);
				Files.writeString(file, (number + 1) + "\n");
			} finally {
				lock.release();
			}
		}
	}

	private static void obey(String[] words) throws Exception {
		String who = words[1];

		switch (words[0]) {
		case "take":
			InterProcessLock lock = lock(words[2], words[3]);
			locks.put(who, lock);
			say(who + (lock.acquire(Long.parseLong(words[4]), TimeUnit.MILLISECONDS) ?
				   " held" : " busy"));
			break;
		case "give":
			locks.get(who).release();
			say(who + " free");
			break;
		case "add":
			add(lock(words[2], words[3]), Integer.parseInt(words[4]), Path.of(words[5]));
			say(who + " done");
			break;
		default:
			throw new IllegalArgumentException(words[0]);
		}
	}

	public static void main(String[] args) throws Exception {
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));

		client = CuratorFrameworkFactory.newClient(args[0], 10000, 5000,
							   new RetryNTimes(10, 200));
		client.start();
		client.blockUntilConnected();
		say("ready");
		for (String line; (line = input.readLine()) != null;) {
			String[] words = line.split(" ");
			threads.computeIfAbsent(words[1], who -> Executors.newSingleThreadExecutor())
				.execute(() -> {
					try {
						obey(words);
					} catch (Exception e) {
						say(words[1] + " failed: " + e);
					}
				});
		}
		client.close();
		System.exit(0);
	}
}
