/* SPDX-License-Identifier: MIT */
/* Tests cmd/config.c. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../cmd/config.h"
#include "base/error.h"
#include "base/memory.h"
#include "unit.h"

/* shown: as format_config() writes it */
static const struct {
	const char *text, *shown;
} good[] = {
	{ "", "" },
	{ "\n\n", "" },
	{ "# only\n; comments\n", "" },
	{ "backend = prod\nttl = 1m\n[prod]\nuri = redis://cache1/0\n",
	  "backend=prod ttl=1m [prod]uri=redis://cache1/0" },
	{ "backend=file:\nttl=1.5s\nwait=0", "backend=file: ttl=1.5s wait=0" },
	{ "ttl: 1m", "ttl=1m" },
	{ "backend = redis://u:p@h:1/0?a=b", "backend=redis://u:p@h:1/0?a=b" },
	{ "[a]\nuri=x\n\n[b]\nuri=y\n", "[a]uri=x [b]uri=y" },
	{ "[a]\n  uri = x\n\t[b]\n\turi = y\n", "[a]uri=x [b]uri=y" },
	{ "  backend = x\n\n  ttl = 1s\n  wait = 2s\n", "backend=x ttl=1s wait=2s" },
	{ "backend=x\r\n[a]\r\nuri=y\r\n", "backend=x [a]uri=y" },
	{ "\xef\xbb\xbf[a]\nuri=x", "[a]uri=x" },
	{ "\xef\xbb\xbf""ttl=1", "ttl=1" },
	{ "ttl = 1s ; one second\n[a] ; comment\nuri = x ; y\n[b]# comment\nuri=z;q\n",
	  "ttl=1s [a]uri=x [b]uri=z;q" },
	{ "[a.b-c_d]\nuri=x", "[a.b-c_d]uri=x" },
	{ "[\xc3\xa9]\nuri=x", "[\xc3\xa9]uri=x" },
	{ "[123456789012345678901234567890123456789012345678]\nuri=x",
	  "[123456789012345678901234567890123456789012345678]uri=x" },
};

static void format_config(const struct config *config, char *buf, size_t size)
{
	FILE *out = fmemopen(buf, size, "w");

	for (size_t i = 0; i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];

		if (!*entry->key)
			continue;
		fprintf(out, "%s%s%s%s%s=%s", ftell(out) ? " " : "", *entry->section ? "[" : "",
			entry->section, *entry->section ? "]" : "", entry->key, entry->value);
	}
	fclose(out);
}

/* As config_load_text(), for a constant text. */
static int load(struct config *config, const char *text, const char *path, struct error *err)
{
	return config_load_text(config, memory_copy(text), path, false, err);
}

static void config_finish(struct config *config)
{
	free(config->entries);
	*config = (struct config){ 0 };
}

static void test_good(void)
{
	struct config config = { 0 };
	char shown[512] = "";
	struct error err;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		unit_case("good %zu", i);
		memset(&err, 0, sizeof(err));
		CHECK_INT(load(&config, good[i].text, "x.conf", &err), 0);
		CHECK_STR(err.message, "");
		memset(shown, 0, sizeof(shown));
		format_config(&config, shown, sizeof(shown));
		CHECK_STR(shown, good[i].shown);
		CHECK(!config.exposed_path);
		config_finish(&config);
	}
	config_finish(&config);
}

static const struct {
	const char *text, *says;
} bad[] = {
	{ "backend", "x.conf:1: not a setting" },
	{ "\n\n # c\nfoo\nttl = x", "x.conf:4: not a setting" },
	{ "redis//u:s3cret@h", "unknown key" },	/* ':' separates, too */
	{ "redis://u:s3cret@h", "x.conf:1: unknown key 'redis'" },
	{ "colour = red", "x.conf:1: unknown key 'colour': backend, ttl, wait" },
	{ "TTL = 1s", "unknown key 'TTL'" },
	{ "uri = x", "unknown key 'uri'" },
	{ "\x1b[2J = x", "unknown key '?[2J'" },
	{ "= x", "unknown key ''" },
	{ "backend =", "x.conf:1: 'backend' has no value" },
	{ "backend = ; none", "has no value" },
	{ "ttl = x", "x.conf:1: ttl: bad duration 'x'" },
	{ "ttl =", "'ttl' has no value" },
	{ "\nwait = 1h30", "x.conf:2: wait: bad duration '1h30'" },
	{ "wait = -1", "bad duration" },
	{ "ttl = 9999999999999999999", "too long" },
	{ "\nttl = 999ms", "x.conf:2: ttl: 999ms is too short; the least is 1s" },
	{ "[a]\nuri = x\nttl = 0", "x.conf:3: ttl: 0 is too short; the least is 1s" },
	{ "ttl = 1s\nttl = 1s", "x.conf:2: 'ttl' is set twice" },
	{ "wait = 1s\nwait = 1s", "'wait' is set twice" },
	{ "backend = a\n\nbackend = b", "x.conf:3: 'backend' is set twice" },
	{ "[a]\nuri = x\nuri = y", "x.conf:3: 'uri' is set twice" },
	{ "[a]\nuri = x\n[b]\nuri = y\n[a]\nuri = z", "x.conf:5: section [a] is given twice" },
	{ "[a]\nuri = x\n[a]\n", "x.conf:3: section [a] is given twice" },
	{ "[a]", "x.conf:1: section [a] has no uri" },
	{ "\n[a]\n\n[b]\nuri = x", "x.conf:2: section [a] has no uri" },
	{ "[a]\nuri =", "x.conf:2: 'uri' has no value" },
	{ "log = yes", "x.conf:1: log: write syslog or stderr" },
	{ "contain = syslog", "x.conf:1: contain: write yes or no" },
	{ "[a]\ncontain = yes", "x.conf:2: unknown key 'contain': a section has uri, ttl," },
	{ "[a]\nttl = 1s", "x.conf:1: section [a] has no uri" },
	{ "[a]\nuri = x\nttl = 1s\nttl = 2s", "x.conf:4: 'ttl' is set twice" },
	{ "[a]\nuri = x\nttl = none", "x.conf:3: ttl: " },
	{ "[a", "x.conf:1: bad section" }, { "[a\nuri=x", "x.conf:1: bad section" },
	{ "[]", "x.conf:1: bad section" }, { "[a] uri = x", "bad section" },
	{ "[a]]", "bad section" },
	{ "[a b]", "bad section" }, { "[ a ]", "bad section" }, { "[a;b ;]", "bad section" },
	{ "[a\tb]", "bad section" }, { "[\x80]", "bad section" }, { "[a[b]", "bad section" },
	{ "[redis://u:s3cret@h]", "bad section" }, { "[u:s3cret]", "bad section" },
	{ "[1234567890123456789012345678901234567890123456789]\nuri=x", "has 1 to 48 bytes" },
	{ "ttl = 1s\n[a]\nuri = x\ngarbage\n[b]\n[c d]", "x.conf:4: not a setting" },
	{ "[a]\nuri = x\n[b c]\ngarbage", "x.conf:3: bad section" },
};

static void test_bad(void)
{
	struct config config = { 0 };
	struct error err;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		unit_case("bad %zu", i);
		CHECK_INT(load(&config, bad[i].text, "x.conf", &err), -1);
		CHECK_INT(err.kind, ERROR_USAGE);
		CHECK_HAS(err.message, bad[i].says);
		CHECK_LACKS(err.message, "s3cret");
		CHECK_LACKS(err.message, "\n");
		config_finish(&config);
	}
}

/* A value is never cut. */
static void test_long_lines(void)
{
	static char text[10000];
	struct config config = { 0 };
	struct error err;
	size_t length, wrong = 0;

	unit_case("long lines");
	for (length = 150; length < 9000; length++) {
		memcpy(text, "ttl=1\n[a]\nuri=", 14);
		memset(text + 14, 'u', length);
		memcpy(text + 14 + length, "\n", 2);
		wrong += config_load_text(&config, text, "x.conf", false, &err) ||
			 strlen(config_get(&config, "a", "uri")->value) != length;
		config_finish(&config);
	}
	CHECK_INT(wrong, 0);
}

static void test_precedence(void)
{
	struct config config = { 0 };
	struct error err;

	unit_case("two files");
	CHECK_INT(load(&config, "ttl=1m\n[a]\nuri=user-a\n[b]\nuri=user-b", "user.conf", &err), 0);
	CHECK_INT(load(&config, "backend=a\nttl=2m\nwait=3m\n[c]\nuri=system-c\n"
		       "[a]\nuri=system-a\nkill-after=1s", "system.conf", &err), 0);
	CHECK_STR(config_get(&config, "", "backend")->value, "a");
	CHECK_STR(config_get(&config, "", "backend")->location, "system.conf:1");
	CHECK_STR(config_get(&config, "", "ttl")->value, "1m");
	CHECK_STR(config_get(&config, "", "wait")->value, "3m");
	CHECK_STR(config_get(&config, "a", "uri")->value, "user-a");
	CHECK_STR(config_get(&config, "b", "uri")->location, "user.conf:5");
	CHECK_STR(config_get(&config, "c", "uri")->value, "system-c");
	/* In a section of both files, too, the user's keys come first. */
	CHECK_STR(config_get(&config, "a", "kill-after")->value, "1s");
	CHECK(!config_get(&config, "d", "uri"));
	CHECK(!config_get(&config, "", "uri"));
	CHECK(!config_get(&config, "A", "uri"));

	unit_case("two files, second bad");	/* a shadowed value is checked, too */
	CHECK_INT(load(&config, "ttl=x", "system.conf", &err), -1);
	CHECK_HAS(err.message, "system.conf:1: ttl: bad duration");
	CHECK_INT(load(&config, "[a]\nuri=1\n[a]\nuri=2", "system.conf", &err), -1);
	CHECK_HAS(err.message, "system.conf:3: section [a] is given twice");
	config_finish(&config);
}

static void write_file(const char *path, const char *text, size_t length, mode_t mode)
{
	FILE *file = fopen(path, "w");

	fwrite(text, 1, length, file);
	fclose(file);
	chmod(path, mode);
}

static void test_exposed(const char *path)
{
	static const struct {
		const char *text;
		mode_t mode;
		bool theirs, roots;	/* exposed when a user owns it; when root does */
	} rows[] = {
		{ "[a]\nuri=redis://u:p@h", 0600, false, false },
		{ "[a]\nuri=redis://u:p@h", 0400, false, false },
		{ "[a]\nuri=redis://u:p@h", 0640, true, false },
		{ "[a]\nuri=redis://u:p@h", 0644, true, true },
		{ "[a]\nuri=redis://u:p@h", 0604, true, true },
		{ "[a]\nuri=redis://h\n[b]\nuri=redis://:p@h\n[c]\nuri=x", 0644, true, true },
		{ "backend=redis://u:p@h", 0644, true, true },
		{ "[a]\nuri=redis://u@h", 0644, false, false },
		{ "[a]\nuri=redis://u:@h", 0644, false, false },
		{ "[a]\nuri=redis://h:1?password-file=/x@y", 0644, false, false },
		{ "# redis://u:p@h\n[a]\nuri=redis://h", 0644, false, false },
	};
	struct config config = { 0 };
	struct error err;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unit_case("exposed %zu, mode %03o", i, (unsigned)rows[i].mode);
		write_file(path, rows[i].text, strlen(rows[i].text), rows[i].mode);
		CHECK_INT(config_load(&config, path, &err), 0);
		CHECK_STR(config.exposed_path,
			  (geteuid() == 0 ? rows[i].roots : rows[i].theirs) ? path : NULL);
		config_finish(&config);
		if (geteuid() == 0 && chown(path, 65534, (gid_t)-1) == 0) {
			CHECK_INT(config_load(&config, path, &err), -1);
			CHECK_HAS(err.message, "it belongs to user 65534");
			CHECK_INT(seteuid(65534), 0);
			CHECK_INT(config_load(&config, path, &err), 0);
			CHECK_INT(seteuid(0), 0);
			CHECK_STR(config.exposed_path, rows[i].theirs ? path : NULL);
			config_finish(&config);
		}
		unlink(path);
	}
}

/* The file that carries the password is named, shadowed or not. */
static void test_exposed_path(const char *path)
{
	static const char text[] = "[a]\nuri=redis://u:p@h";
	struct config config = { 0 };
	struct error err;

	unit_case("exposed, second file");
	write_file(path, text, sizeof(text) - 1, 0644);
	CHECK_INT(load(&config, "[a]\nuri=redis://h", "user.conf", &err), 0);
	CHECK_INT(config_load(&config, path, &err), 0);
	CHECK_STR(config_get(&config, "a", "uri")->value, "redis://h");
	CHECK_STR(config.exposed_path, path);
	CHECK_INT(config_load(&config, path, &err), 0);
	CHECK_STR(config.exposed_path, path);
	config_finish(&config);
	unlink(path);
}

static void test_files(const char *directory, const char *path)
{
	static char big[70000];
	struct config config = { 0 };
	struct error err;
	char below[128];

	unit_case("files");
	CHECK_INT(config_load(&config, path, &err), 0);		/* none there */
	CHECK_INT(config_load(&config, "/dev/null/.config/dlock.conf", &err), 0);
	CHECK_INT(config_load(&config, directory, &err), -1);
	CHECK_HAS(err.message, directory);
	CHECK_HAS(err.message, "not a regular file");
	CHECK_INT(config_load(&config, "/dev/null", &err), -1);
	CHECK_HAS(err.message, "/dev/null: not a regular file");
	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(config_load(&config, path, &err), -1);	/* and does not wait */
	CHECK_HAS(err.message, "not a regular file");
	unlink(path);
	CHECK_INT(symlink(path, path), 0);
	CHECK_INT(config_load(&config, path, &err), -1);
	CHECK_INT(err.kind, ERROR_USAGE);
	unlink(path);
	write_file(path, "ttl=1s\0\n", 8, 0600);
	CHECK_INT(config_load(&config, path, &err), -1);
	CHECK_HAS(err.message, "NUL");
	memset(big, '\n', sizeof(big));
	write_file(path, big, sizeof(big), 0600);
	CHECK_INT(config_load(&config, path, &err), -1);
	CHECK_HAS(err.message, "larger than 65536 bytes");
	write_file(path, big, 65536, 0600);
	CHECK_INT(config_load(&config, path, &err), 0);
	write_file(path, "", 0, 0600);
	CHECK_INT(config_load(&config, path, &err), 0);
	write_file(path, "ttl=1s\nttl=", 11, 0600);
	CHECK_INT(config_load(&config, path, &err), -1);
	snprintf(below, sizeof(below), "%s:2: 'ttl' is set twice", path);
	CHECK_STR(err.message, below);
	config_finish(&config);
	snprintf(below, sizeof(below), "%s/below", path);	/* ENOTDIR */
	CHECK_INT(config_load(&config, below, &err), 0);
	chmod(path, 0);
	if (geteuid() == 0)
		CHECK_INT(seteuid(65534), 0);
	CHECK_INT(config_load(&config, path, &err), -1);
	CHECK_HAS(err.message, "Permission denied");
	if (getuid() == 0)
		CHECK_INT(seteuid(0), 0);
	unlink(path);
}

int main(void)
{
	char directory[] = "/tmp/dlock-unit-XXXXXX", path[64];

	test_good();
	test_bad();
	test_long_lines();
	test_precedence();
	unit_case("directory");
	CHECK(mkdtemp(directory) != NULL);
	/* A test reads it as another user. */
	chmod(directory, 0755);
	snprintf(path, sizeof(path), "%s/dlock.conf", directory);
	test_exposed(path);
	test_exposed_path(path);
	test_files(directory, path);
	rmdir(directory);
	return unit_done();
}
