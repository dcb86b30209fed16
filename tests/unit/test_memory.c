/* SPDX-License-Identifier: MIT */
/* Tests src/base/memory.c. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "unit.h"

/* Runs use() in a child. Returns its wait status, and what it has written to stderr. */
static int run_child(void (*use)(void), char text[static 64])
{
	ssize_t length;
	int ends[2], status = -1;
	pid_t child;

	fflush(stdout);
	CHECK_INT(pipe(ends), 0);
	child = fork();
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		atexit(abort);	/* must not run */
		use();
		_exit(0);
	}
	close(ends[1]);
	length = read(ends[0], text, 63);
	text[length > 0 ? length : 0] = '\0';
	close(ends[0]);
	waitpid(child, &status, 0);
	return status;
}

/* The allocator of the address sanitizer ends the process with an error. */
#if defined(__SANITIZE_ADDRESS__)
#define OWN_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OWN_ALLOCATOR 1
#endif
#endif

#ifndef OWN_ALLOCATOR
static void too_much(void)
{
	free(memory_new(SIZE_MAX / 2, 4));
}

static void too_much_more(void)
{
	free(memory_resize(NULL, SIZE_MAX / 2, 4));
}
#endif

int main(void)
{
	static void (*const uses[])(void) = {
		memory_exit,
#ifndef OWN_ALLOCATOR
		too_much, too_much_more,
#endif
	};
	char text[64], *copy = memory_copy("abc");
	int status;

	for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
		unit_case("no memory, %zu", i);
		status = run_child(uses[i], text);
		CHECK(WIFEXITED(status));
		CHECK_INT(WEXITSTATUS(status), MEMORY_EXIT_STATUS);
		CHECK_STR(text, "dlock: out of memory\n");
	}
	unit_case("copies");
	CHECK_STR(copy, "abc");
	CHECK(!memory_copy(NULL));
	free(copy);
	copy = memory_copy_part("abc", 2);
	CHECK_STR(copy, "ab");
	free(copy);
	copy = memory_format("%s-%d", "a", 1);
	CHECK_STR(copy, "a-1");
	copy = memory_resize(copy, 100, 1);
	CHECK_STR(copy, "a-1");
	free(copy);
	return unit_done();
}
