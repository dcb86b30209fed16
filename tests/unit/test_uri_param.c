/* SPDX-License-Identifier: MIT */
/* Tests src/lock/uri_param.c. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "lock/uri.h"
#include "unit.h"

static void test_place(void)
{
	static const struct {
		const char *text, *place;
	} places[] = {
		{ "file:", "file:" },
		{ "file:///a%20b", "file:/a b" },
		{ "redis://u:s3cret@h", "redis h:6379" },
		{ "redis://h:1/2?prefix=a:&timeout=1s&replicas=1",
		  "redis h:1/2?prefix=a:&replicas=1" },
		{ "redis://[::1],h:2/0", "redis [::1]:6379,h:2/0" },
		{ "redis+unix:///run/r.sock?db=1", "redis+unix:/run/r.sock?db=1" },
		{ "redis://h/0?password-file=/x&sentinel-password-file=/y", "redis h:6379/0" },
	};
	char buf[URI_LOCATION_SIZE];
	struct error err;
	struct uri uri = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		unit_case("%s", places[i].text);
		CHECK_INT(uri_parse(&uri, places[i].text, &err), 0);
		CHECK_STR(uri_location(&uri, 6379, buf), places[i].place);
		uri_finish(&uri);
	}
}

static void test_params(void)
{
	static const char *const known[] = { "timeout", "prefix", NULL };
	static const char *const none[] = { NULL };
	struct error err;
	struct uri uri = { 0 };
	int64_t ms = 0;
	bool flag;

	unit_case("parameters");
	CHECK_INT(uri_parse(&uri, "redis://h?timeout=1.5s&prefix=", &err), 0);
	CHECK_STR(uri_param(&uri, "timeout"), "1.5s");
	CHECK_STR(uri_param(&uri, "prefix"), "");
	CHECK_STR(uri_param(&uri, "time"), NULL);
	CHECK_INT(uri_check_params(&uri, known, &err), 0);
	CHECK_INT(uri_check_params(&uri, none, &err), -1);
	CHECK_STR(err.message, "unknown parameter 'timeout' for redis: known are: none");
	CHECK_INT(uri_param_duration(&uri, "timeout", 7, &ms, &err), 0);
	CHECK_INT(ms, 1500);
	CHECK_INT(uri_param_duration(&uri, "node-timeout", 7, &ms, &err), 0);
	CHECK_INT(ms, 7);
	CHECK_INT(uri_param_duration(&uri, "prefix", 7, &ms, &err), -1);
	CHECK_HAS(err.message, "parameter 'prefix' for redis: bad duration ''");
	uri_finish(&uri);
	CHECK_INT(uri_parse(&uri, "redis://h?timeout=1&timeuot=2", &err), 0);
	CHECK_INT(uri_check_params(&uri, known, &err), -1);
	CHECK_INT(err.kind, ERROR_USAGE);
	CHECK_STR(err.message,
		  "unknown parameter 'timeuot' for redis: known are: timeout, prefix");
	uri_finish(&uri);
	CHECK_INT(uri_parse(&uri, "mysql://h/db?wsrep=unsafe", &err), 0);
	CHECK_INT(uri_check_params(&uri, known, &err), -1);
	CHECK_INT(err.kind, ERROR_USAGE);
	CHECK_STR(err.message, "parameter 'wsrep' belongs to mysql: with ?strategy=row, advisory "
		  "or table");
	uri_finish(&uri);
	CHECK_INT(uri_parse(&uri, "redis://h?a=yes&b=no&c=1", &err), 0);
	CHECK_INT(uri_param_flag(&uri, "a", false, &flag, &err), 0);
	CHECK(flag);
	CHECK_INT(uri_param_flag(&uri, "b", true, &flag, &err), 0);
	CHECK(!flag);
	CHECK_INT(uri_param_flag(&uri, "c", true, &flag, &err), -1);
	CHECK_STR(err.message, "parameter 'c' for redis must be yes or no");
	CHECK_INT(uri_param_flag(&uri, "d", true, &flag, &err), 0);
	CHECK(flag);
	uri_finish(&uri);
	CHECK_INT(uri_parse(&uri, "redis://h", &err), 0);
	CHECK_INT(uri_check_params(&uri, none, &err), 0);
	uri_finish(&uri);
}

static void write_file(const char *path, const char *text, size_t length, mode_t mode)
{
	FILE *file = fopen(path, "w");

	fwrite(text, 1, length, file);
	fclose(file);
	chmod(path, mode);
}

/* Parses and loads with the file given; the result goes by the last argument. */
static int load_uri(const char *userinfo, const char *path, struct uri *uri, const char **exposed,
		    struct error *err)
{
	char text[256];

	snprintf(text, sizeof(text), "redis://%sh?password-file=%s", userinfo, path);
	if (uri_parse(uri, text, err) < 0)
		return -2;
	*exposed = NULL;
	return uri_load_passwords(uri, exposed, err);
}

static const struct {
	const char *text;
	size_t length;
	const char *password, *says;
} files[] = {
	{ "s3cret", 6, "s3cret", NULL },
	{ "s3cret\n", 7, "s3cret", NULL },
	{ "s3cret\r\n", 8, "s3cret", NULL },
	{ "s3cret\nmore\n", 12, "s3cret", NULL },
	{ " s3 cret \n", 10, " s3 cret ", NULL },
	{ "\xff@:/#%41\n", 9, "\xff@:/#%41", NULL },	/* as it is: nothing is decoded */
	{ "", 0, NULL, "first line is empty" },
	{ "\ns3cret\n", 8, NULL, "first line is empty" },
	{ "s3\0cret", 7, NULL, "NUL" },
};

static void test_password_contents(const char *path)
{
	struct error err;
	struct uri uri = { 0 };
	const char *exposed = NULL;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		unit_case("password file %zu", i);
		write_file(path, files[i].text, files[i].length, 0600);
		CHECK_INT(load_uri("", path, &uri, &exposed, &err), files[i].says ? -1 : 0);
		CHECK_STR(uri.password, files[i].password);
		CHECK(!exposed);
		if (files[i].says)
			CHECK_HAS(err.message, files[i].says);
		if (files[i].says)
			CHECK_HAS(err.message, path);
		CHECK_INT(uri_load_passwords(&uri, &exposed, &err), files[i].says ? -1 : 0);
		uri_finish(&uri);
	}
}

static void test_password_modes(const char *path)
{
	static const struct {
		mode_t mode;
		bool theirs, roots;	/* exposed when a user owns it; when root does */
	} modes[] = {
		{ 0400, false, false }, { 0600, false, false }, { 0711, false, false },
		{ 0622, false, false }, { 0640, true, false }, { 0660, true, false },
		{ 0604, true, true }, { 0644, true, true }, { 0666, true, true },
	};
	struct error err;
	struct uri uri = { 0 };
	const char *exposed = NULL;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		unit_case("password file of mode %03o", (unsigned)modes[i].mode);
		write_file(path, "s3cret\n", 7, modes[i].mode);
		CHECK_INT(load_uri("u@", path, &uri, &exposed, &err), 0);
		CHECK_INT(exposed != NULL, geteuid() == 0 ? modes[i].roots : modes[i].theirs);
		uri_finish(&uri);
		if (geteuid() == 0 && chown(path, 65534, (gid_t)-1) == 0) {
			CHECK_INT(load_uri("u@", path, &uri, &exposed, &err), 0);
			CHECK_INT(exposed != NULL, modes[i].theirs);
			uri_finish(&uri);
		}
		unlink(path);
	}
}

/* [33] */
static void test_password_odd(const char *directory, const char *path)
{
	static char big[70000];
	struct error err;
	struct uri uri = { 0 };
	const char *exposed = NULL;

	unit_case("password file, odd");
	CHECK_INT(load_uri("", path, &uri, &exposed, &err), -1);
	CHECK_HAS(err.message, path);
	CHECK_HAS(err.message, "No such file");
	uri_finish(&uri);
	CHECK_INT(load_uri("", directory, &uri, &exposed, &err), -1);
	CHECK_HAS(err.message, "not a regular file");
	uri_finish(&uri);
	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(load_uri("", path, &uri, &exposed, &err), -1);	/* and does not wait */
	CHECK_HAS(err.message, "not a regular file");
	uri_finish(&uri);
	unlink(path);
	memset(big, 'b', sizeof(big));
	write_file(path, big, sizeof(big), 0600);
	CHECK_INT(load_uri("", path, &uri, &exposed, &err), -1);
	CHECK_HAS(err.message, "larger than 65536 bytes");
	uri_finish(&uri);
	CHECK_INT(load_uri(":s3cret@", path, &uri, &exposed, &err), -1);
	CHECK_HAS(err.message, "two passwords");
	CHECK_LACKS(err.message, "s3cret");
	uri_finish(&uri);
	CHECK_INT(load_uri("", "", &uri, &exposed, &err), -1);
	uri_finish(&uri);
	CHECK_INT(uri_parse(&uri, "redis://u:p@h", &err), 0);
	CHECK_INT(uri_load_passwords(&uri, &exposed, &err), 0);
	CHECK_STR(uri.password, "p");
	uri_finish(&uri);
}

static void test_password_renewed(const char *path)
{
	char *password;

	CHECK(uri_renew_password(NULL) == NULL);
	CHECK(uri_renew_password(path) == NULL);
	write_file(path, "new\n", 4, 0600);
	password = uri_renew_password(path);
	CHECK_STR(password, "new");
	memory_free_secret(password);
	unlink(path);
}

static void test_password_file(void)
{
	char directory[] = "/tmp/dlock-unit-XXXXXX", path[64];

	unit_case("password file");
	CHECK(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/password", directory);
	test_password_renewed(path);
	test_password_contents(path);
	unlink(path);
	test_password_modes(path);
	test_password_odd(directory, path);
	unlink(path);
	rmdir(directory);
}

int main(void)
{
	test_place();
	test_params();
	test_password_file();
	return unit_done();
}
