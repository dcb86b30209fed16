/* SPDX-License-Identifier: MIT */
/* Fuzzes the parser of URIs. */
#include "base/error.h"
#include "base/text.h"
#include "lock/uri.h"
#include "fuzz.h"

/* Seeds have it where a password is: it is no part of any message's own words. */
#define SECRET "s3cret"

#define SHOWN_SIZE 512

static void check_inside(const struct uri *uri, const char *s)
{
	const char *end = uri->storage + uri->storage_size + 1;

	INVARIANT(s >= uri->storage && s < end);
	INVARIANT(strnlen(s, (size_t)(end - s)) < (size_t)(end - s));
}

static void check_parts(const struct uri *uri)
{
	size_t i;

	check_inside(uri, uri->scheme);
	check_inside(uri, uri->path);
	INVARIANT(*uri->scheme && (!*uri->path || *uri->path == '/'));
	if (uri->user)
		check_inside(uri, uri->user);
	if (uri->password)
		check_inside(uri, uri->password);
	INVARIANT(uri->user || !uri->password);
	for (i = 0; i < uri->host_count; i++) {
		check_inside(uri, uri->hosts[i].name);
		INVARIANT(*uri->hosts[i].name);
	}
	for (i = 0; i < uri->param_count; i++) {
		check_inside(uri, uri->params[i].name);
		check_inside(uri, uri->params[i].value);
		INVARIANT(uri_param(uri, uri->params[i].name) == uri->params[i].value);
	}
}

/* In a valid URI the password begins exactly where it is found, and no byte of it is left out. */
static void check_password(const struct uri *uri, const char *text)
{
	size_t length;
	const char *found = text_find_password(text, &length);
	const char *at;
	char *copy;
	ptrdiff_t decoded;

	if (!uri->password || !*uri->password)
		return;
	INVARIANT(found);
	at = memchr(found, '@', length + 1);
	INVARIANT(at);
	copy = strndup(found, (size_t)(at - found));
	INVARIANT(copy);
	decoded = uri_decode(copy, strlen(copy));
	INVARIANT(decoded == (ptrdiff_t)strlen(uri->password));
	INVARIANT(memcmp(copy, uri->password, (size_t)decoded) == 0);
	free(copy);
}

/* What is redacted is the text around the password, and nothing of it. */
static void check_redact(const char *text, char *shown, size_t size)
{
	size_t length = 0, before;
	const char *found = text_find_password(text, &length);
	char *want = malloc(strlen(text) + 4);

	INVARIANT(want);
	INVARIANT(!found || (found > text && length > 0 && found[-1] == ':' &&
			     found[length] == '@' && found + length < text + strlen(text)));
	before = found ? (size_t)(found - text) : strlen(text);
	sprintf(want, "%.*s%s%s", (int)before, text, found ? "***" : "",
		found ? found + length : "");
	text_quote(text, shown, size);
	INVARIANT(text_is_clean(shown, strlen(shown)));
	/* Without a password, what is before the '@' may be one. */
	if ((found || !strchr(text, '@')) && text_is_clean(want, strlen(want)) &&
	    strlen(want) < size - 3)
		INVARIANT(strcmp(shown, want) == 0);
	free(want);
}

/* No message may tell a password: one that stands nowhere else, plain or encoded. */
static void check_error(const char *text, const char *shown, const struct error *err)
{
	INVARIANT(err->kind == ERROR_USAGE && *err->message);
	INVARIANT(text_is_clean(err->message, strlen(err->message)));
	if (strstr(text, SECRET) && strlen(text) < SHOWN_SIZE &&
	    !strcasestr(shown, SECRET) && !strchr(shown, '%'))
		INVARIANT(!strcasestr(err->message, SECRET));
}

static void check_encode(const uint8_t *data, size_t size)
{
	size_t need = uri_encode((const char *)data, size, NULL, 0), cut;
	char *buf = malloc(need + 1), small[16];

	INVARIANT(buf);
	INVARIANT(uri_encode((const char *)data, size, buf, need + 1) == need);
	INVARIANT(strlen(buf) == need);
	INVARIANT(uri_encode((const char *)data, size, small, sizeof(small)) == need);
	cut = strlen(small);
	INVARIANT(strncmp(small, buf, cut) == 0);
	INVARIANT(uri_decode(small, cut) >= 0);		/* no half escape */
	INVARIANT(uri_decode(buf, need) == (ptrdiff_t)size);
	INVARIANT(size == 0 || memcmp(buf, data, size) == 0);
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const known[] = { "timeout", NULL };
	char *text = fuzz_text(data, size), shown[SHOWN_SIZE];
	struct error err = { .kind = ERROR_NONE };
	struct uri uri;
	int64_t ms;

	check_redact(text, shown, sizeof(shown));
	if (uri_parse(&uri, text, &err) == 0) {
		check_parts(&uri);
		check_password(&uri, text);
		uri_check_params(&uri, known, &err);
		uri_param_duration(&uri, "timeout", 1, &ms, &err);
	} else {
		check_error(text, shown, &err);
		INVARIANT(!uri.storage);
	}
	uri_finish(&uri);
	check_encode(data, size);
	free(text);
	return 0;
}
