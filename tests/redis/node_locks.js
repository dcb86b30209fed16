// SPDX-License-Identifier: MIT
// The lines of node_locks.py, carried out by the packages redlock and redis-semaphore themselves.
// NODE_PATH names the directory that has them, and ioredis:
//
//	npm install --prefix DIR redlock@5.0.0-beta.2 redis-semaphore ioredis
//	NODE_PATH=DIR/node_modules tests/check tests/redis/node.bats
"use strict";

const fs = require("fs");
const readline = require("readline");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");
const { Mutex, RedlockMutex } = require("redis-semaphore");

const clients = process.argv.slice(2).map((path) => new Redis({ path, maxRetriesPerRequest: 0 }));
clients.forEach((client) => client.on("error", () => {}));
const holds = {};

const say = (line) => fs.writeSync(1, line + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A hold of redlock lasts as long as a routine of its using(), which extends it.
class RedlockHold {
	constructor(name, ttl) {
		this.name = name;
		this.ttl = ttl;
		this.redlock = new Redlock(clients, { retryCount: 0 });
	}

	async take(wait) {
		const ends = Date.now() + wait;

		for (;;) {
			const taken = await new Promise((resolve) => {
				this.ended = this.redlock.using([this.name], this.ttl, (signal) => {
					this.signal = signal;
					resolve(true);
					return new Promise((give) => (this.end = give));
				}).then(() => "free", () => {
					resolve(false);
					return "lost";
				});
			});
			if (taken)
				return "held";
			if (Date.now() >= ends)
				return "busy";
			await sleep(100 + Math.random() * 200);
		}
	}

	async give() {
		this.end();
		return this.ended;
	}
}

class MutexHold {
	constructor(name, ttl) {
		this.name = name;
		this.ttl = ttl;
		this.lost = false;
	}

	async take(wait) {
		const options = {
			lockTimeout: this.ttl, acquireTimeout: Math.max(wait, 1),
			onLockLost: () => (this.lost = true),
		};

		this.mutex = clients.length > 1 ? new RedlockMutex(clients, this.name, options)
			: new Mutex(clients[0], this.name, options);
		return (await this.mutex.tryAcquire()) ? "held" : "busy";
	}

	async give() {
		await this.mutex.release();
		return this.lost ? "lost" : "free";
	}
}

const kinds = { redlock: RedlockHold, semaphore: MutexHold };

async function add(kind, name, ttl, times, file) {
	for (let i = 0; i < times; i++) {
		const hold = new kinds[kind](name, ttl);

		if ((await hold.take(60000)) !== "held")
			return;
		const number = Number(fs.readFileSync(file, "utf8"));
		await sleep(1);
		fs.writeFileSync(file, number + 1 + "\n");
		await hold.give();
	}
}

async function obey([verb, who, ...words]) {
	if (verb === "take") {
		holds[who] = new kinds[words[0]](words[1], Number(words[2]));
		say(who + " " + (await holds[who].take(Number(words[3]))));
	} else if (verb === "give") {
		say(who + " " + (await holds[who].give()));
	} else if (verb === "add") {
		await add(words[0], words[1], Number(words[2]), Number(words[3]), words[4]);
		say(who + " done");
	}
}

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => void obey(line.split(" ")));
lines.on("close", () => process.exit(0));
say("ready");
