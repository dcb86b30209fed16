/* SPDX-License-Identifier: MIT */
/*
 * A session of OpenSSL over our own socket. Bytes are sent here, because OpenSSL's own sockets use
 * write(), which raises SIGPIPE when the server is gone.
 */
#include "session.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/redis/address.h"
#include "backends/redis/tls.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/net.h"
#include "base/version.h"

/* The first byte that a server sends (RFC 8446, 5.1). */
enum { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22 };

/* ---- the bytes below */

static int set_retry(BIO *bio, ssize_t result, int retry)
{
	struct redis_tls_session *session = BIO_get_data(bio);

	session->failure = result < 0 ? errno : 0;
	BIO_clear_retry_flags(bio);
	if (result < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
	return (int)result;
}

static int bio_read(BIO *bio, char *data, int size)
{
	struct redis_tls_session *session = BIO_get_data(bio);
	const ssize_t result = recv(session->fd, data, (size_t)size, 0);

	if (result > 0 && !session->received) {
		session->received = true;
		session->foreign = data[0] != RECORD_HANDSHAKE && data[0] != RECORD_ALERT;
	}
	return set_retry(bio, result, BIO_FLAGS_READ);
}

static int bio_write(BIO *bio, const char *data, int size)
{
	struct redis_tls_session *session = BIO_get_data(bio);

	return set_retry(bio, send(session->fd, data, (size_t)size, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

/* Answer BIO_flush(): there are no buffers. OpenSSL needs no other answer. */
static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static BIO *make_bio(struct redis_tls_session *session)
{
	static BIO_METHOD *method;
	BIO *bio;

	if (!method) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dlock");
		if (!method)
			return NULL;
		BIO_meth_set_read(method, bio_read);
		BIO_meth_set_write(method, bio_write);
		BIO_meth_set_ctrl(method, bio_control);
	}
	bio = BIO_new(method);
	if (bio) {
		BIO_set_data(bio, session);
		BIO_set_init(bio, 1);
	}
	return bio;
}

/* ---- opening */

/*
 * Verify the certificate against host, and send the name to a server that has several. An IP
 * address is not sent (RFC 6066, 3). A dot at the end of a name is dropped.
 */
static bool expect_host(SSL *ssl, const char *host, bool verify)
{
	struct sockaddr_storage address;
	socklen_t length;
	char name[256];
	size_t used = (size_t)snprintf(name, sizeof(name), "%s", host);

	if (used >= sizeof(name))
		return false;
	/* An IPv6 address may have a zone. */
	if (strchr(name, ':'))
		name[strcspn(name, "%")] = '\0';
	if (net_literal(name, 0, &address, &length))
		return !verify || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	if (used > 1 && name[used - 1] == '.')
		name[used - 1] = '\0';
	if (SSL_set_tlsext_host_name(ssl, name) != 1)
		return false;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return !verify || SSL_set1_host(ssl, name) == 1;
}

static void tls_close(struct redis_tls_session *session)
{
	ERR_clear_error();
	if (session->ssl && !session->broken && SSL_is_init_finished(session->ssl))
		SSL_shutdown(session->ssl);
	SSL_free(session->ssl);
	SSL_CTX_free(session->context);
	free(session);
}

static struct redis_tls_session *tls_open(int fd, const struct redis_tls *tls, const char *host,
					  struct error *err)
{
	struct redis_tls_session *session = memory_new(1, sizeof(*session));
	BIO *bio;

	session->fd = fd;
	session->tls = tls;
	session->host = tls->name ? tls->name : host;
	session->context = tls_context(tls, err);
	if (!session->context)
		goto fail;
	session->ssl = SSL_new(session->context);
	bio = session->ssl ? make_bio(session) : NULL;
	if (!bio)
		memory_exit();
	SSL_set_bio(session->ssl, bio, bio);
	SSL_set_connect_state(session->ssl);
	if (expect_host(session->ssl, session->host, !tls->insecure))
		return session;
	error_set(err, ERROR_USAGE, 0, "'%.200s' cannot be the name in a certificate",
		  session->host);
fail:
	tls_close(session);
	return NULL;
}

/* ---- moving */

/* Handle a failed call of OpenSSL. Returns 0 with *wanted, or -1 and sets *err. */
static int handle_failure(struct redis_tls_session *session, int result, short *wanted,
			  struct error *err)
{
	const char *when = SSL_is_init_finished(session->ssl) ? "" : " in the TLS handshake";

	switch (SSL_get_error(session->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		*wanted = POLLIN;
		return 0;
	case SSL_ERROR_WANT_WRITE:
		*wanted = POLLOUT;
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		error_set(err, ERROR_UNAVAILABLE, 0, "closed the connection%s", when);
		break;
	case SSL_ERROR_SYSCALL:
		if (session->failure)
			error_set(err, ERROR_UNAVAILABLE, session->failure,
				  "the connection broke%s", when);
		else
			error_set(err, ERROR_UNAVAILABLE, 0, "closed the connection%s", when);
		break;
	default:
		tls_explain(session, err);
		break;
	}
	session->broken = true;
	return -1;
}

static int tls_handshake(struct redis_tls_session *session, short *wanted, struct error *err)
{
	int result;

	ERR_clear_error();
	result = SSL_do_handshake(session->ssl);
	return result == 1 ? 1 : handle_failure(session, result, wanted, err);
}

static int clamp_size(size_t size)
{
	return size > INT_MAX ? INT_MAX : (int)size;
}

static ssize_t tls_read(struct redis_tls_session *session, void *data, size_t size, short *wanted,
			struct error *err)
{
	int result;

	ERR_clear_error();
	result = SSL_read(session->ssl, data, clamp_size(size));
	return result > 0 ? result : handle_failure(session, result, wanted, err);
}

/*
 * Read the alert of a server after sending has failed. In TLS 1.3 the handshake is over before the
 * server has checked our certificate. A server that rejects it sends an alert and closes.
 */
static void read_alert(struct redis_tls_session *session, struct error *err)
{
	struct error last = { 0 };
	short ignored;
	char byte;

	if (tls_read(session, &byte, 1, &ignored, &last) < 0 && last.kind == ERROR_REFUSED)
		*err = last;
}

static ssize_t tls_write(struct redis_tls_session *session, const void *data, size_t size,
			 short *wanted, struct error *err)
{
	int result, state;

	ERR_clear_error();
	result = SSL_write(session->ssl, data, clamp_size(size));
	if (result > 0)
		return result;
	state = handle_failure(session, result, wanted, err);
	if (state < 0 && err->kind == ERROR_UNAVAILABLE)
		read_alert(session, err);
	return state;
}

static const char *describe_library(void)
{
	return OpenSSL_version(OPENSSL_VERSION);
}

const struct redis_tls_module dlock_module = {
	.module = { DLOCK_VERSION, describe_library },
	.open = tls_open,
	.handshake = tls_handshake,
	.read = tls_read,
	.write = tls_write,
	.close = tls_close,
};
