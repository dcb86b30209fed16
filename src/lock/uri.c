/* SPDX-License-Identifier: MIT */
/* Parsing URIs, and percent-encoding. uri_param.c has the parameters. */
#include "uri.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

static const char hex_digits[] = "0123456789ABCDEF";

static int hex_value(char c)
{
	const char *digit = strchr(hex_digits, c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c);

	return c && digit ? (int)(digit - hex_digits) : -1;
}

ptrdiff_t uri_decode(char *text, size_t length)
{
	const char *end = text + length;
	char *out = text;
	int high, low;

	for (const char *in = text; in < end; in++) {
		if (*in != '%') {
			*out++ = *in;
			continue;
		}
		high = end - in > 2 ? hex_value(in[1]) : -1;
		low = high < 0 ? -1 : hex_value(in[2]);
		if (low < 0)
			return -1;
		*out++ = (char)(high << 4 | low);
		in += 2;
	}
	return out - text;
}

static bool is_plain(char c)
{
	return text_is_letter(c) || text_is_digit(c) || (c && strchr("-._~/:", c));
}

size_t uri_encode(const char *text, size_t length, char *buf, size_t size)
{
	size_t need = 0, used = 0, step;

	for (size_t i = 0; i < length; i++, need += step) {
		const unsigned char c = (unsigned char)text[i];
		const char escape[] = { '%', hex_digits[c >> 4], hex_digits[c & 15] };

		step = is_plain(text[i]) ? 1 : 3;
		/* When buf is full, write no part of an escape, and nothing after a gap. */
		if (used < need || need + step >= size)
			continue;
		memcpy(buf + used, step == 1 ? text + i : escape, step);
		used += step;
	}
	if (size > 0)
		buf[used] = '\0';
	return need;
}

const char *uri_host_text(const char *name, uint16_t port, char *buf, size_t size)
{
	const size_t around = sizeof("[]:65535");
	const int room = size > around ? (int)(size - around) : 0;

	snprintf(buf, size, strchr(name, ':') ? "[%.*s]:%u" : "%.*s:%u", room, name,
		 (unsigned)port);
	return buf;
}

const char *uri_param(const struct uri *uri, const char *name)
{
	for (size_t i = 0; i < uri->param_count; i++)
		if (!strcmp(uri->params[i].name, name))
			return uri->params[i].value;
	return NULL;
}

/*
 * No message of the parser shows a part of the URI, because a misplaced part may be a piece of a
 * password.
 */
static int fail_at(struct error *err)
{
	return error_set(err, ERROR_USAGE, 0, "'@' belongs before the hosts, once: elsewhere write "
			 "%%40, and in a password %%2F for '/', %%3F for '?'");
}

/* Decode a part in place. */
static int decode_part(char *text, const char *part, struct error *err)
{
	const ptrdiff_t length = uri_decode(text, strlen(text));

	if (length < 0)
		return error_set(err, ERROR_USAGE, 0, "bad percent-encoding in the %s: write %%25 "
				 "for '%%'", part);
	text[length] = '\0';
	for (ptrdiff_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return error_set(err, ERROR_USAGE, 0, "control character in the %s: take "
					 "it out", part);
	return 0;
}

/* Is name an IPv6 address, perhaps with a zone ("fe80::1%eth0")? */
static bool is_ipv6(const char *name)
{
	size_t length = strcspn(name, "%");
	char address[INET6_ADDRSTRLEN];
	struct in6_addr in6;

	if (length >= sizeof(address) || (name[length] && !name[length + 1]))
		return false;
	memcpy(address, name, length);
	address[length] = '\0';
	return inet_pton(AF_INET6, address, &in6) == 1;
}

/* Parse "host[:port]". number, for messages, counts from 1. */
static int parse_host(char *text, struct uri_host *host, size_t number, struct error *err)
{
	char *bracket = *text == '[' ? strrchr(text, ']') : NULL;
	char *port = strchr(bracket ? bracket : text, ':');
	int64_t value = 0;

	if (port)
		*port++ = '\0';
	host->name = bracket ? text + 1 : text;
	if (bracket && !bracket[1])
		*bracket = '\0';
	if (decode_part(host->name, "host", err))
		return -1;
	if (bracket ? !is_ipv6(host->name)
		    : !*text || strpbrk(text, " \"%,/:?@[\\]"))
		return error_set(err, ERROR_USAGE, 0, "bad host %zu: write HOST[:PORT], and "
				 "brackets around an IPv6 address, as in [::1]:6379", number);
	if (port && (!text_number(port, strlen(port), &value) || !value || value > UINT16_MAX))
		return error_set(err, ERROR_USAGE, 0, "bad port of host %zu: write a number from 1 "
				 "to 65535, brackets around an IPv6 address, and in a password "
				 "%%3F for '?'", number);
	host->port = (uint16_t)value;
	return 0;
}

static int parse_authority(struct uri *uri, char *text, struct error *err)
{
	char *hosts = strchr(text, '@'), *host;

	if (hosts) {
		*hosts++ = '\0';
		uri->user = strsep(&text, ":");
		uri->password = text;
	} else {
		hosts = text;
	}
	if (strchr(hosts, '@'))
		return fail_at(err);
	if ((uri->user && decode_part(uri->user, "user name", err)) ||
	    (uri->password && decode_part(uri->password, "password", err)))
		return -1;
	while (hosts && (*hosts || uri->host_count)) {
		host = strsep(&hosts, ",");
		uri->hosts = memory_resize(uri->hosts, uri->host_count + 1, sizeof(*uri->hosts));
		if (parse_host(host, &uri->hosts[uri->host_count], uri->host_count + 1, err))
			return -1;
		uri->host_count++;
	}
	return 0;
}

static int parse_query(struct uri *uri, char *text, struct error *err)
{
	char *name, *value, quoted[TEXT_QUOTE_SIZE];

	while ((value = strsep(&text, "&"))) {
		if (!*value)
			continue;
		name = strsep(&value, "=");
		if (!*name)
			return error_set(err, ERROR_USAGE, 0, "a parameter has no name: write "
					 "?NAME=VALUE&...");
		if (strchr(name, '@'))
			return fail_at(err);
		if (!value)
			value = name + strlen(name);
		if (decode_part(name, "name of a parameter", err) ||
		    decode_part(value, "value of a parameter", err))
			return -1;
		if (uri_param(uri, name))
			return error_set(err, ERROR_USAGE, 0, "parameter '%s' is given twice",
					 text_quote(name, quoted, sizeof(quoted)));
		uri->params = memory_resize(uri->params, uri->param_count + 1,
					    sizeof(*uri->params));
		uri->params[uri->param_count++] = (struct uri_param){ name, value };
	}
	return 0;
}

static bool is_path_scheme(const char *scheme)
{
	const char *plus = strrchr(scheme, '+');

	return !strcmp(scheme, "file") || (plus && !strcmp(plus, "+unix"));
}

/* Parse the text behind the scheme. */
static int parse_after_scheme(struct uri *uri, char *text, struct error *err)
{
	char *query = text, *path = strsep(&query, "?"), *authority = path;
	size_t length = 0;

	if (strchr(path, '#') || (query && strchr(query, '#')))
		return error_set(err, ERROR_USAGE, 0, "a fragment makes no sense here: write %%23 "
				 "for '#'");
	if (!strncmp(path, "//", 2)) {
		/* Move it one byte to the left, to make room for its NUL. */
		length = strcspn(path + 2, "/");
		memmove(authority, path + 2, length);
		path += 2 + length;
	} else if (*path && *path != '/') {
		return error_set(err, ERROR_USAGE, 0, is_path_scheme(uri->scheme)
				 ? "the path must begin with '/'"
				 : "'//' is missing after '%.32s:'", uri->scheme);
	}
	uri->path = path;
	if (strchr(path, '@') && (length || !is_path_scheme(uri->scheme)))
		return fail_at(err);
	if (decode_part(path, "path", err))
		return -1;
	if (length) {
		authority[length] = '\0';
		if (parse_authority(uri, authority, err))
			return -1;
	}
	return query ? parse_query(uri, query, err) : 0;
}

int uri_parse(struct uri *uri, const char *text, struct error *err)
{
	char shown[TEXT_QUOTE_SIZE], *end;

	*uri = (struct uri){ .storage = memory_copy(text), .storage_size = strlen(text) };
	uri->scheme = end = uri->storage;
	for (; text_is_letter(*end) || text_is_digit(*end) || (*end && strchr("+-.", *end)); end++)
		if (*end >= 'A' && *end <= 'Z')
			*end += 'a' - 'A';
	if (*end != ':' || !text_is_letter(*text)) {
		error_set(err, ERROR_USAGE, 0, "bad URI '%s': it must begin with a scheme, such as "
			  "redis:// or file:", text_quote(text, shown, sizeof(shown)));
		goto fail;
	}
	*end++ = '\0';
	if (!parse_after_scheme(uri, end, err))
		return 0;
	error_prefix(err, "bad %.32s URI", uri->scheme);
fail:
	uri_finish(uri);
	return -1;
}

void uri_finish(struct uri *uri)
{
	memory_free_secret(uri->loaded_password);
	memory_free_secret(uri->sentinel_password);
	if (uri->storage)
		explicit_bzero(uri->storage, uri->storage_size);
	free(uri->storage);
	free(uri->hosts);
	free(uri->params);
	memset(uri, 0, sizeof(*uri));
}
