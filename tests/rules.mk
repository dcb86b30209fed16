# SPDX-License-Identifier: MIT
#
# How the programs of the tests are built, and what runs the tests. The Makefile includes this file.

UNIT_SRC := $(wildcard tests/unit/*.c)
TOOL_SRC := $(wildcard tests/lib/tools/*.c)
PRELOAD_SRC := $(wildcard tests/preload/*.c)
CRASH_SRC := $(wildcard tests/crash/*.c)
FUZZ_SRC := $(wildcard tests/fuzz/*.c)
UNITS := $(patsubst %.c,$(BUILD)/%,$(UNIT_SRC))
TOOLS := $(patsubst %.c,$(BUILD)/%,$(TOOL_SRC)) $(addprefix $(BUILD)/tests/crash/,crash tree)
PRELOADS := $(patsubst %.c,$(BUILD)/%.so,$(PRELOAD_SRC))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SRC))

.PHONY: check check-all check-static check-debian13 check-newest check-deb check-arm64 crash torture soak lint format bench fuzz \
	fuzzers model test-programs

ZOOKEEPER_PURE := src/backends/zookeeper/layout.c
$(BUILD)/tests/unit/test_zk: $(call obj,$(ZOOKEEPER_PURE))
$(BUILD)/tests/unit/test_zk_conn: $(if $(ZOOKEEPER_LIBS),$(call obj,$(ZOOKEEPER_SRC)))
$(BUILD)/tests/unit/test_zk_conn: LIBS += $(ZOOKEEPER_LIBS) -lpthread -lm
$(BUILD)/tests/unit/test_etcd: $(if $(ETCD_LIBS),$(call obj,$(ETCD_SRC)))
$(BUILD)/tests/unit/test_etcd.o: ALL_CFLAGS += $(ETCD_CFLAGS)
$(BUILD)/tests/unit/test_etcd: LIBS += $(ETCD_LIBS)
$(BUILD)/tests/unit/test_redlock: $(call obj,src/backends/redlock/validity.c)
$(BUILD)/tests/unit/test_mysql: $(call obj,$(SQL_SRC))
$(BUILD)/tests/unit/test_config: $(call obj,cmd/config.c)
$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(call obj,$(ENGINE_SRC)) $(REDIS_OBJ) \
		$(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(linked) $(LIBS)

$(BUILD)/tests/lib/tools/%: $(BUILD)/tests/lib/tools/%.o $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(linked)

# A witness that starts slowly beats late; static where the C library's archive is there.
ifeq ($(SANITIZE),)
$(BUILD)/tests/lib/tools/witness: ALL_LDFLAGS += $(if $(call have_archive,libc.a),-static)
endif

TORTURE_SRC := $(addprefix tests/torture/,torture.c lane.c verdict.c strike.c process.c plan.c history.c)
$(BUILD)/tests/torture/torture: $(call obj,$(TORTURE_SRC)) $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(linked)
$(BUILD)/tests/torture/judge: $(call obj,tests/torture/judge.c tests/torture/history.c) \
		$(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(linked)
# Into programs that were built without sanitizers, too.
$(BUILD)/tests/preload/%.so: tests/preload/%.c $(compiled)
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(ALL_CPPFLAGS) -std=c11 $(WARNINGS) -O2 -fPIC -shared -o $@ $<
$(BUILD)/tests/unit/test_history: $(call obj,tests/torture/history.c)
$(BUILD)/tests/unit/test_torture: $(call obj,tests/torture/plan.c)
TORTURE := $(addprefix $(BUILD)/tests/torture/,torture judge)

$(BUILD)/tests/crash/tree: $(BUILD)/tests/crash/tree.o $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(linked)

$(BUILD)/tests/crash/crash: $(call obj,$(filter-out %/tree.c,$(CRASH_SRC))) $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(linked)

# dlock and the oracle with a backend in memory, which the installed program does not have: its row
# in the registry is put into a copy. The oracle finds modules beside itself.
MEMORY_OBJ := $(filter-out %/registry.o,$(PROGRAM_OBJ)) $(BUILD)/gen/registry_memory.o \
	$(BUILD)/tests/conformance/memory/memory.o
MEMORY := $(BUILD)/tests/conformance/memory/dlock $(BUILD)/oracle
$(BUILD)/gen/registry_memory.c: src/backends/registry.c tests/conformance/memory/registry.sed
	@mkdir -p $(@D)
	$(call say,GEN,$@) sed -f tests/conformance/memory/registry.sed $< >$@.new && mv $@.new $@
$(BUILD)/gen/registry_memory.o: $(BUILD)/gen/registry_memory.c $(compiled)
	$(call say,CC,$<) $(CC) $(ALL_CPPFLAGS) -Isrc/backends -Itests/conformance $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/oracle: $(filter-out $(call obj,$(CMD_SRC)),$(MEMORY_OBJ)) $(BUILD)/tests/conformance/memory/oracle.o
$(BUILD)/tests/conformance/memory/dlock: $(MEMORY_OBJ)
$(MEMORY): src/backends/exports.list $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -pie \
		-Wl,--dynamic-list=src/backends/exports.list -o $@ $(linked) $(LIBS)

# Many waiters in few processes, for bench. It finds modules beside itself.
$(BUILD)/waiters: $(filter-out $(call obj,$(CMD_SRC)),$(PROGRAM_OBJ)) \
		$(BUILD)/tests/bench/waiters.o
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -pie \
		-Wl,--dynamic-list=src/backends/exports.list -o $@ $(linked) $(LIBS)

test-programs: $(UNITS) $(TOOLS) $(PRELOADS) $(TORTURE) $(MEMORY)

# The objects of fuzz targets are compiled once for all of them.
fuzz_obj = $(patsubst %.c,$(BUILD)/fuzz/%.o,$(patsubst $(BUILD)/%,%,$(1)))
FUZZ_FLAGS := -g -O1 -std=c11 -fsanitize=address,undefined -fno-sanitize-recover=all
# Some targets need more than the pure parts.
FUZZ_EXTRA_fuzz_config := cmd/config.c
FUZZ_EXTRA_fuzz_zk := $(ZOOKEEPER_PURE)
FUZZ_EXTRA_fuzz_record := src/backends/file/record.c src/backends/file/path.c
FUZZ_EXTRA_fuzz_redis := $(addprefix src/backends/redis/,client.c conn.c route.c \
	check.c backend.c redisson.c) gen/redis_scripts.c
FUZZ_EXTRA_fuzz_etcd := $(filter-out %/client.c %/lock.c %/show.c,$(ETCD_SRC))
FUZZ_LIBS_fuzz_etcd := $(ETCD_LIBS)
compile_fuzz = $(call say,CC,$<) $(FUZZ_CC) $(ALL_CPPFLAGS) $(ETCD_CFLAGS) $(FUZZ_FLAGS) \
	-fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<
$(BUILD)/fuzz/gen/%.o: $(BUILD)/gen/%.c $(BUILD)/compile.flags
	@mkdir -p $(@D)
	$(compile_fuzz)
$(BUILD)/fuzz/%.o: %.c $(BUILD)/gen/module_dir.h $(BUILD)/compile.flags
	@mkdir -p $(@D)
	$(compile_fuzz)
.SECONDEXPANSION:
$(FUZZERS): $(BUILD)/fuzz/%: $(BUILD)/fuzz/tests/fuzz/%.o \
		$(call fuzz_obj,$(wildcard src/base/*.c src/lock/*.c)) $$(call fuzz_obj,$$(FUZZ_EXTRA_$$*))
	$(call say,LD,$@) $(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS) $(FUZZ_LIBS_$*)

fuzzers: $(FUZZERS)

fuzz: fuzzers
	tests/fuzz/run $(BUILD)/fuzz $(FUZZ_SECONDS)

# PART=rest: the tests that `make check` leaves out.
check check-all:
	$(Q)tests/packages $(PACKAGES) test
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all test-programs
	$(Q)BUILD="$(BUILD_DIR)" $(if $(filter check-all,$@),PART="$(or $(PART),all)") tests/check $(TESTS)

check-arm64:
	$(Q)tests/packages $(PACKAGES) cross
	$(Q)BUILD="$(BUILD_DIR)" tests/cross

# The one file in small roots, the recipes with it, and the conformance of each backend that is in it.
check-static:
	$(Q)tests/packages $(PACKAGES) test
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all static test-programs
	$(Q)BUILD="$(BUILD_DIR)" DLOCK="$(BUILD_DIR)/dlock-static" tests/check $(or $(TESTS),tests/static \
		tests/cli/recipes.bats tests/redis/tls.bats $(addprefix tests/conformance/run.bats:,file redis redlock zookeeper etcd mysql))

check-debian13:
	$(Q)tests/debian/check $(TESTS)

# What of these depends on the release most, with its newest MariaDB: for .ci/run.
IN_DEBIAN13 = tests/unit/unit.bats $(addprefix tests/run/,contain.bats container.bats) \
	tests/file/containers.bats $(addprefix tests/conformance/run.bats:,mysql postgres)

# On Debian unstable: Oracle's MySQL with its client library, Redis, ZooKeeper, etcd, PostgreSQL and Valkey. On Debian 13:
# the newest MariaDB that it has, with its client library.
NEWEST_MYSQL := $(addprefix tests/conformance/run.bats:,mysql mysql-row mysql-advisory mysql-table \
	mysql-insert mysql-shedlock)
NEWEST := tests/newest $(addprefix tests/mysql/,countdown.bats waiting.bats) \
	$(NEWEST_MYSQL) $(addprefix tests/conformance/run.bats:,redis zookeeper etcd postgres) \
	tests/etcd/etcd.bats $(addprefix tests/postgres/,faults.bats failover.bats)
NEWEST_VALKEY := $(addprefix tests/conformance/run.bats:,redis-sentinel redis-cluster redis-redisson \
	redlock) $(addprefix tests/redis/,sentinel.bats cluster.bats redisson.bats tls.bats)
NEWEST_MARIADB := $(NEWEST_MYSQL) tests/mysql/waiting.bats

check-newest:
	$(Q)tests/debian/newest $(or $(TESTS),$(NEWEST) --valkey $(NEWEST_VALKEY) --mariadb $(NEWEST_MARIADB))

check-deb:
	$(Q)tests/packages $(PACKAGES) test
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all test-programs
	$(Q)BUILD="$(BUILD_DIR)" TEST_SECONDS=900 SUITE_SECONDS=3600 tests/check tests/debian/packages.bats

torture:
	$(Q)tests/packages $(PACKAGES) test
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all test-programs
	$(Q)BUILD="$(BUILD_DIR)" tests/torture/run
	$(Q)BUILD="$(BUILD_DIR)" tests/crash/run -a

soak:
	$(Q)tests/packages $(PACKAGES) test
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all test-programs
	$(Q)BUILD="$(BUILD_DIR)" HOURS="$(HOURS)" tests/torture/soak

crash:
	$(Q)tests/packages $(PACKAGES) test
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all test-programs
	$(Q)BUILD="$(BUILD_DIR)" tests/crash/run $(if $(EACH),-e $(EACH))

lint:
	$(Q)tests/packages $(PACKAGES) test lint
	$(Q)tests/lint $(BUILD)

# Changed lines only: the author of the others broke them by their sense.
BASE ?= main
format:
	$(Q)tests/packages lint
	$(Q)git clang-format --force --extensions c,h "$$(git merge-base HEAD $(BASE))"

model:
	$(Q)tests/packages lint
	$(Q)tests/model/run

bench:
	$(Q)tests/packages $(PACKAGES) test bench
	$(Q)$(MAKE) --no-print-directory all $(BUILD)/waiters
	$(Q)BUILD="$(BUILD_DIR)" tests/bench/run
