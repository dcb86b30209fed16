/* SPDX-License-Identifier: MIT */
/* Making the context: the authorities, certificate and key that a URI names. */
#include "session.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/redis/address.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

/* For how long, in ms, a context serves further connections. */
#define SHARED_MS 1000

/* Check a file first: OpenSSL would block on a FIFO, and its messages do not name the file. */
static int check_path(const char *path, const char *parameter, bool *is_directory,
		      struct error *err)
{
	struct stat st;

	if (stat(path, &st) || access(path, R_OK))
		return error_set(err, ERROR_USAGE, errno, "?%s=: %.250s", parameter, path);
	if (S_ISREG(st.st_mode) || (is_directory && S_ISDIR(st.st_mode))) {
		if (is_directory)
			*is_directory = S_ISDIR(st.st_mode);
		return 0;
	}
	return error_set(err, ERROR_USAGE, 0, "?%s=: %.250s: not a regular file", parameter, path);
}

static const char *get_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	return text ? text : "no reason given";
}

static int set_trust(SSL_CTX *context, const struct redis_tls *tls, struct error *err)
{
	bool is_directory;

	if (tls->insecure) {
		SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
		return 0;
	}
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (!tls->ca) {
		SSL_CTX_set_default_verify_paths(context);
		return 0;
	}
	if (check_path(tls->ca, "ca", &is_directory, err))
		return -1;
	if (SSL_CTX_load_verify_locations(context, is_directory ? NULL : tls->ca,
					  is_directory ? tls->ca : NULL) == 1)
		return 0;
	return error_set(err, ERROR_USAGE, 0, "?ca=: %.250s: there are no certificates in it (%s)",
			 tls->ca, get_reason());
}

/* Otherwise OpenSSL would ask for the passphrase on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *asked)
{
	(void)buf;
	(void)size;
	(void)writing;
	*(bool *)asked = true;
	return -1;
}

static int show_certificate(SSL_CTX *context, const struct redis_tls *tls, struct error *err)
{
	bool encrypted = false;

	if (!tls->cert)
		return 0;
	if (check_path(tls->cert, "cert", NULL, err) || check_path(tls->key, "key", NULL, err))
		return -1;
	SSL_CTX_set_default_passwd_cb(context, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
	if (SSL_CTX_use_certificate_chain_file(context, tls->cert) != 1)
		return error_set(err, ERROR_USAGE, 0,
				 "?cert=: %.250s: there is no certificate in it (%s)", tls->cert,
				 get_reason());
	if (SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) == 1)
		return 0;
	if (encrypted)
		return error_set(err, ERROR_USAGE, 0, "?key=: %.250s: the key has a passphrase, "
				 "and nobody is there to be asked for it", tls->key);
	return error_set(err, ERROR_USAGE, 0, "?key=: %.250s: not the key of ?cert= (%s)",
			 tls->key, get_reason());
}

static SSL_CTX *read_files(const struct redis_tls *tls, struct error *err)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_client_method());
	if (!context) {
		error_set(err, ERROR_INTERNAL, 0, "OpenSSL does not start: %s", get_reason());
		return NULL;
	}
	/* Older versions are broken (RFC 8996). The system's configuration may require more. */
	if (SSL_CTX_get_min_proto_version(context) < TLS1_2_VERSION)
		SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	/* A waiter's connection is idle nearly always, and needs no buffers then. */
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
			 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (!set_trust(context, tls, err) && !show_certificate(context, tls, err))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

static const char *text_of(const char *path)
{
	return path ? path : "";
}

/*
 * Reading the authorities of the system takes some 30 ms, so connections to several servers at once
 * share one context.
 */
SSL_CTX *tls_context(const struct redis_tls *tls, struct error *err)
{
	static SSL_CTX *last;
	static char *last_files;
	static int64_t read_ms;
	char *files = memory_format("%s\n%s\n%s\n%d", text_of(tls->ca), text_of(tls->cert),
				    text_of(tls->key), tls->insecure);

	if (!last || strcmp(files, last_files) != 0 || clock_boot_ms() >= read_ms + SHARED_MS) {
		SSL_CTX_free(last);
		free(last_files);
		read_ms = clock_boot_ms();
		last = read_files(tls, err);
		last_files = files;
	} else {
		free(files);
	}
	if (last)
		SSL_CTX_up_ref(last);
	return last;
}
