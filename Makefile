# SPDX-License-Identifier: MIT
#
# make demo      install what the build needs, build, run a command under a lock
# make check     install what the tests need, prove each promise once against real servers
# make check-all all tests: each promise in each way to reach or use a server, at more moments
# make crash     kill each process of dlock at each of its system calls, or each EACH-th
# make           build into $(BUILD)
# make dist deb  a tarball of the sources into $(BUILD), Debian packages into $(BUILD)/deb
# make release   both from the tag of this version, or REF, with their sums, into $(BUILD)/release
# make torture   random faults against many locks; ROUNDS, BACKENDS, SEED: tests/torture/README.md
# make soak HOURS=N   the same with random options, on each backend in turn and on all together
# make check-debian13 check-deb  all tests in a tree of Debian 13, VALKEY=1 with Valkey; the
#                packages in fresh trees
# make check-newest  suites of MySQL 9 and its fail-over, Redis, Valkey, ZooKeeper, newest MariaDB
# make check-arm64   a build for aarch64, which runs with qemu-user
# make lint format bench fuzz model install uninstall clean
#
# The rules for tests are in tests/rules.mk.
#
# V=1 shows commands. SANITIZE=address,undefined builds with sanitizers, into a
# directory of its own. WITH_REDIS=no, WITH_ZOOKEEPER=no, WITH_MYSQL=no, WITH_POSTGRES=no, WITH_ETCD=no
# leave a backend out, WITH_TLS=no what rediss:, etcds: and ?tls=yes need. SHARED=yes links shared
# libraries only, and no
# archives. What depends on these, on CFLAGS or on a directory is made again when they change.

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
UNITDIR ?= $(PREFIX)/lib/systemd/system
DESTDIR ?=
PKG_CONFIG ?= pkg-config
INSTALL ?= install
SANITIZE ?=
WITH_REDIS ?= yes
WITH_TLS ?= yes
WITH_ZOOKEEPER ?= yes
WITH_MYSQL ?= yes
WITH_ETCD ?= yes
WITH_POSTGRES ?= yes
SHARED ?= no
FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang

ifneq ($(SANITIZE),)
BUILD ?= build-sanitize
else
BUILD ?= build
endif

# A directory in this one is known by its name alone: the path to it may have a space in it, which
# no target may have.
override BUILD := $(subst $(CURDIR)/,,$(BUILD))
# Not abspath, which takes a path with a space for two.
BUILD_DIR := $(if $(filter /%,$(BUILD)),$(BUILD),$(CURDIR)/$(BUILD))

ifneq ($(V),1)
Q := @
say = @echo "  $(1)	$(2)";
endif

CFLAGS ?= -O2 -g
# The option $(1), or nothing if the compiler, for this kind of machine, does not have it.
option = $(shell $(CC) -Werror $(1) -c -x c /dev/null -o /dev/null 2>/dev/null && echo '$(1)')

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wwrite-strings -Wno-overlength-strings
HARDENING := -fstack-protector-strong -fPIC $(call option,-fstack-clash-protection) \
	$(call option,-fcf-protection)
HARDENING_LD := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
ifneq ($(SANITIZE),)
HARDENING += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
else
# The C library warns of 3 where the compiler is too old for it.
HARDENING += -U_FORTIFY_SOURCE \
	-D_FORTIFY_SOURCE=$(if $(call option,-O2 -D_FORTIFY_SOURCE=3 -include stdlib.h),3,2)
endif
# The variables of the user are left alone: make would hand them on to itself with what is added.
ALL_CPPFLAGS := $(CPPFLAGS) -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Isrc -I$(BUILD)/gen
# The result does not depend on the directory that it was built in.
ALL_CPPFLAGS += '-ffile-prefix-map=$(CURDIR)=.' \
	$(if $(filter /%,$(BUILD)),'-ffile-prefix-map=$(BUILD)=build')
ALL_CFLAGS := $(CFLAGS) -std=c11 $(WARNINGS) $(HARDENING)
ALL_LDFLAGS := $(LDFLAGS) $(HARDENING_LD) $(addprefix -fsanitize=,$(SANITIZE))

archive = $(shell $(CC) -print-file-name=$(1) 2>/dev/null)
OBJCOPY ?= objcopy
STRIP ?= strip
have_archive = $(if $(filter yes,$(SHARED)),,$(filter /%,$(call archive,$(1))))

# A library as its archive where there is one, which spares the loader 70 us at each start.
library = $(or $(call have_archive,lib$(1).a),$(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null))

WITHOUT :=
ifeq ($(WITH_REDIS),yes)
HIREDIS_CFLAGS := $(shell $(PKG_CONFIG) --cflags hiredis 2>/dev/null)
LIBS := $(or $(call library,hiredis),-lhiredis)
else
WITHOUT += REDIS
endif
# OpenSSL as a shared object, so that its updates reach dlock without a build.
ifneq ($(and $(filter yes,$(WITH_TLS)),$(filter yes,$(WITH_REDIS) $(WITH_ETCD))),)
MODULES += $(BUILD)/dlock-tls.so
TLS_CFLAGS := $(shell $(PKG_CONFIG) --cflags openssl 2>/dev/null)
TLS_LIBS := $(or $(shell $(PKG_CONFIG) --libs openssl 2>/dev/null),-lssl -lcrypto)
else
WITHOUT += TLS
endif
ifeq ($(WITH_MYSQL),yes)
MODULES += $(BUILD)/dlock-mysql.so
# MariaDB Connector/C or Oracle's libmysqlclient, whichever is called mysqlclient here.
MYSQL_PKG := $(firstword $(foreach p,mysqlclient libmariadb mariadb,$(shell \
	$(PKG_CONFIG) --exists $(p) 2>/dev/null && echo $(p))))
ifneq ($(MYSQL_PKG),)
MYSQL_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(MYSQL_PKG))
MYSQL_LIBS := $(shell $(PKG_CONFIG) --libs $(MYSQL_PKG))
else
MYSQL_CFLAGS := $(shell mysql_config --include 2>/dev/null)
MYSQL_LIBS := $(shell mysql_config --libs 2>/dev/null)
endif
# Connector/C and what it brings along from archives: to load OpenSSL as shared objects takes
# longer than all the rest of a run, and so does what only the archive can be told to leave
# out (see the client library's options in src/backends/mysql). SHARED=yes: updates of OpenSSL reach it.
# mariadb_config does not say what OpenSSL's archive needs.
ifneq ($(call have_archive,libmariadb.a),)
MYSQL_LIBS := $(call have_archive,libmariadb.a) \
	$(foreach l,$(patsubst -l%,%,$(filter -l%,$(shell mariadb_config --libs_sys) \
		$(shell $(PKG_CONFIG) --static --libs-only-l libcrypto 2>/dev/null))),$(or \
		$(if $(filter ssl crypto z zstd,$(l)),$(call have_archive,lib$(l).a)),-l$(l)))
endif
else
WITHOUT += MYSQL
endif

ifeq ($(WITH_POSTGRES),yes)
MODULES += $(BUILD)/dlock-postgres.so
POSTGRES_CFLAGS := $(shell $(PKG_CONFIG) --cflags libpq)
POSTGRES_LIBS := $(shell $(PKG_CONFIG) --libs libpq)
else
WITHOUT += POSTGRES
endif

ifeq ($(WITH_ZOOKEEPER),yes)
MODULES += $(BUILD)/dlock-zookeeper.so
ZOOKEEPER_LIBS := $(or $(call have_archive,libzookeeper_mt.a),-lzookeeper_mt)
else
WITHOUT += ZOOKEEPER
endif

# A parser of HTTP: llhttp, which Debian has since 13, or http_parser before.
ifeq ($(WITH_ETCD),yes)
MODULES += $(BUILD)/dlock-etcd.so
ETCD_CFLAGS := $(shell $(PKG_CONFIG) --cflags json-c 2>/dev/null)
LLHTTP := $(shell $(PKG_CONFIG) --exists libllhttp 2>/dev/null && echo yes)
ETCD_CFLAGS += $(if $(LLHTTP),-DWITH_LLHTTP $(shell $(PKG_CONFIG) --cflags libllhttp))
ETCD_LIBS := $(or $(call have_archive,libjson-c.a),-ljson-c) $(if $(LLHTTP),$(or \
	$(call have_archive,libllhttp.a),-lllhttp),$(or $(call have_archive,libhttp_parser.a),-lhttp_parser))
else
WITHOUT += ETCD
endif

# What tests/packages knows of.
PACKAGES := compiler $(if $(LIBS),redis) $(if $(TLS_LIBS),tls) $(if $(ZOOKEEPER_LIBS),zookeeper) \
	$(if $(ETCD_LIBS),etcd) \
	$(if $(filter yes,$(WITH_MYSQL)),mysql $(if $(filter yes,$(SHARED)),,archives)) \
	$(if $(filter yes,$(WITH_POSTGRES)),postgres)

obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
CMD_SRC := $(wildcard cmd/*.c)
# What the unit tests use, too: all of the program but the commands.
ENGINE_SRC := $(wildcard src/base/*.c src/lock/*.c src/engine/*.c src/backends/*.c \
	src/backends/file/*.c)
ifeq ($(WITH_REDIS),yes)
REDIS_SRC := $(wildcard src/backends/redis/*.c src/backends/redlock/*.c)
REDIS_OBJ := $(call obj,$(REDIS_SRC)) $(BUILD)/gen/redis_scripts.o
endif
TLS_SRC := $(wildcard src/backends/tls/*.c)
ZOOKEEPER_SRC := $(wildcard src/backends/zookeeper/*.c)
ETCD_SRC := $(wildcard src/backends/http/*.c src/backends/etcd/*.c)
MYSQL_SRC := $(wildcard src/backends/mysql/*.c)
POSTGRES_SRC := $(wildcard src/backends/postgres/*.c)
SQL_SRC := $(wildcard src/backends/sql/*.c)
.PHONY: all demo html install uninstall clean dist deb rpm release FORCE
all: $(BUILD)/dlock $(MODULES) $(BUILD)/modules.loaded

# A module uses functions of the program, so that the linker cannot know whether a library lacks
# one: loading tells. A program for another kind of machine does not run here.
ifeq ($(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null))),$(shell uname -m))
$(BUILD)/modules.loaded: $(BUILD)/dlock $(MODULES)
	$(Q)$(BUILD)/dlock version -v >$@.new && mv $@.new $@
else
.PHONY: $(BUILD)/modules.loaded
endif

# $(call keep,TEXT): writes the target unless it has this text, so that what depends on the target
# is made again only when the text changes.
define keep
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(1))' >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
endef

# What the compiler and the linker are told.
compile_FLAGS := $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS)
redis_FLAGS = $(HIREDIS_CFLAGS)
tls_FLAGS = $(TLS_CFLAGS)
etcd_FLAGS = $(ETCD_CFLAGS)
mysql_FLAGS = $(MYSQL_CFLAGS)
postgres_FLAGS = $(POSTGRES_CFLAGS)
link_FLAGS := $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS) $(TLS_LIBS) $(MYSQL_LIBS) $(ZOOKEEPER_LIBS) \
	$(ETCD_LIBS) $(POSTGRES_LIBS)
$(BUILD)/%.flags: FORCE
	$(call keep,$($*_FLAGS))
compiled = $(BUILD)/compile.flags | $(BUILD)/packages
linked = $(filter %.o,$^)

# What is left out is known to few files, and a library's options to those that use it.
PARTS_OBJ := $(call obj,src/backends/registry.c src/lock/uri_tls.c cmd/version.c tests/unit/test_etcd.c \
	tests/unit/test_zk_conn.c) $(BUILD)/gen/registry_memory.o
$(PARTS_OBJ): ALL_CPPFLAGS += $(addprefix -DWITHOUT_,$(WITHOUT))
$(PARTS_OBJ): $(BUILD)/parts.flags
parts_FLAGS = $(WITHOUT)

# Names what is not installed in one line, before the compiler does it in many.
packages_FLAGS = $(PACKAGES)
$(BUILD)/packages: tests/packages $(BUILD)/compile.flags $(BUILD)/packages.flags
	$(Q)CC='$(CC)' PKG_CONFIG='$(PKG_CONFIG)' tests/packages -n $(PACKAGES) && touch $@

PROGRAM_OBJ := $(call obj,$(CMD_SRC) $(ENGINE_SRC)) $(REDIS_OBJ) $(BUILD)/gen/completions.o

COMPLETIONS := bash=completions/dlock.bash zsh=completions/_dlock fish=completions/dlock.fish
$(BUILD)/gen/completions.c: completions/embed.sh completions/dlock.bash completions/_dlock \
		completions/dlock.fish
	@mkdir -p $(@D)
	$(call say,GEN,$@) sh $< $(COMPLETIONS) >$@.new && mv $@.new $@
$(BUILD)/gen/completions.o: $(BUILD)/gen/completions.c cmd/completion.h $(compiled)
	$(call say,CC,$<) $(CC) $(ALL_CPPFLAGS) -Icmd $(ALL_CFLAGS) -c -o $@ $<

# Where an installed program looks for its modules; known to one file, so that `make install` with
# another LIBDIR compiles no more than that.
$(BUILD)/gen/module_dir.h: FORCE
	$(call keep,#define MODULE_DIR "$(LIBDIR)/dlock")
$(call obj,src/base/module.c): $(BUILD)/gen/module_dir.h

# Modules use functions of the program; nothing else of it is exported.
$(BUILD)/dlock: $(PROGRAM_OBJ) src/backends/exports.list $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -pie \
		-Wl,--dynamic-list=src/backends/exports.list -o $@ $(linked) $(LIBS)

# The library says in its headers with THREADED that it is the one with threads.
$(call obj,$(ZOOKEEPER_SRC)): ALL_CPPFLAGS += -DTHREADED
$(BUILD)/dlock-zookeeper.so: $(call obj,$(ZOOKEEPER_SRC)) $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -o $@ $(linked) $(ZOOKEEPER_LIBS) \
		-lpthread -lm -Wl,--exclude-libs,ALL

$(call obj,$(ETCD_SRC)): ALL_CFLAGS += $(ETCD_CFLAGS)
$(call obj,$(ETCD_SRC)): $(BUILD)/etcd.flags
$(BUILD)/dlock-etcd.so: $(call obj,$(ETCD_SRC)) src/backends/module.map $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -o $@ $(linked) $(ETCD_LIBS) \
		-Wl,--version-script=src/backends/module.map

# One file for every machine. Each module is an object with its library, of which only the table is
# visible: libraries have equal names. No PIE, because to relocate the tables of OpenSSL takes a
# tenth of a run. What the libraries demand of those who pass them on is in the file beside it.
# Debian has no archive of all that libpq needs, nor of Oracle's client library.
LINKED := $(filter-out postgres $(if $(filter %/libmariadb.a,$(MYSQL_LIBS)),,mysql) \
	$(if $(filter -l%,$(ZOOKEEPER_LIBS)),zookeeper) $(if $(filter -l%,$(ETCD_LIBS)),etcd), \
	$(patsubst $(BUILD)/dlock-%.so,%,$(MODULES)))
STATIC_LIBS = $(LIBS) $(if $(LINKED),-lssl $(or $(shell $(PKG_CONFIG) --static --libs-only-l libcrypto),-lcrypto)) \
	$(if $(filter mysql,$(LINKED)),-lz) -lm
.PHONY: static
static: $(BUILD)/dlock-static $(BUILD)/dlock-static.LICENSES
$(BUILD)/static/tls.o: $(call obj,$(TLS_SRC))
$(BUILD)/static/zookeeper.o: $(call obj,$(ZOOKEEPER_SRC))
$(BUILD)/static/zookeeper.o: LIBRARY = $(ZOOKEEPER_LIBS)
$(BUILD)/static/etcd.o: $(call obj,$(ETCD_SRC))
$(BUILD)/static/etcd.o: LIBRARY = $(ETCD_LIBS)
$(BUILD)/static/mysql.o: $(call obj,$(MYSQL_SRC) $(SQL_SRC)) $(BUILD)/gen/mysql_texts.o
$(BUILD)/static/mysql.o: LIBRARY = $(filter %/libmariadb.a,$(MYSQL_LIBS))
# GNU's objcopy compares a symbol that it keeps with the new name, LLVM's with the old one.
$(LINKED:%=$(BUILD)/static/%.o): $(BUILD)/link.flags
	@mkdir -p $(@D)
	$(call say,LD,$@) $(CC) $(filter -fuse-ld=%,$(LDFLAGS)) -r -nostdlib -Wl,--trace -o $@.new \
		$(linked) $(LIBRARY) >$@.trace && $(OBJCOPY) --redefine-sym dlock_module=dlock_module_$(*F) \
			--keep-global-symbol=dlock_module --keep-global-symbol=dlock_module_$(*F) $@.new $@ && rm $@.new
$(BUILD)/static/modules.o: src/base/module.c $(BUILD)/gen/module_dir.h $(BUILD)/link.flags $(compiled)
	@mkdir -p $(@D)
	$(call say,CC,$@) $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) '-DLINKED_MODULES=$(foreach m,$(LINKED),M($(m)))' -c -o $@ $<
$(BUILD)/dlock-static: $(filter-out $(call obj,src/base/module.c),$(PROGRAM_OBJ)) \
		$(BUILD)/static/modules.o $(LINKED:%=$(BUILD)/static/%.o)
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -static -Wl,--trace \
		$(if $(filter -fuse-ld=lld,$(LDFLAGS)),,-no-pie) -o $@ $(linked) $(STATIC_LIBS) \
		>$@.trace 2>$@.warnings || { cat $@.warnings >&2; exit 1; } && $(STRIP) $@
$(BUILD)/dlock-static.LICENSES: $(BUILD)/dlock-static
	$(Q)cat LICENSE >$@.new && for package in $$(grep -ho '/[^/]*[.]a\b' $<.trace $(BUILD)/static/*.trace | \
			sort -u | sed 's|^|*|' | xargs dpkg-query -S | cut -d: -f1 | sort -u); do \
		printf '\n==== %s ====\n\n' "$$package"; cat "/usr/share/doc/$$package/copyright" || exit; \
	done >>$@.new && mv $@.new $@

REDIS_LUA := src/backends/redis/lua
$(BUILD)/gen/redis_scripts.c: $(REDIS_LUA)/embed.sh $(wildcard $(REDIS_LUA)/*.lua)
	@mkdir -p $(@D)
	$(call say,GEN,$@) sh $(REDIS_LUA)/embed.sh $(REDIS_LUA)/plain.lua \
		$(REDIS_LUA)/redisson.lua >$@.new && mv $@.new $@
$(BUILD)/gen/redis_scripts.o: $(BUILD)/gen/redis_scripts.c src/backends/redis/client.h $(compiled)
	$(call say,CC,$<) $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<
$(call obj,$(REDIS_SRC)): ALL_CFLAGS += $(HIREDIS_CFLAGS)
$(call obj,$(REDIS_SRC)): $(BUILD)/redis.flags

$(call obj,$(TLS_SRC)): ALL_CFLAGS += $(TLS_CFLAGS)
$(call obj,$(TLS_SRC)): $(BUILD)/tls.flags
$(BUILD)/dlock-tls.so: $(call obj,$(TLS_SRC)) src/backends/module.map $(BUILD)/link.flags
	$(call say,LD,$@) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -o $@ $(linked) $(TLS_LIBS) \
		-Wl,--version-script=src/backends/module.map

# Backends of SQL servers: their texts, and the part that they share.
define sql_backend
$(BUILD)/dlock-$(1).so: $(call obj,$($(2)_SRC) $(SQL_SRC)) $(BUILD)/gen/$(1)_texts.o \
		src/backends/module.map $(BUILD)/link.flags
	$$(call say,LD,$$@) $$(CC) $$(ALL_CFLAGS) $$(ALL_LDFLAGS) -shared -o $$@ $$(linked) $$($(2)_LIBS) \
		-Wl,--version-script=src/backends/module.map
$(BUILD)/gen/$(1)_texts.c: src/backends/sql/embed.sh $(wildcard src/backends/$(1)/*.c src/backends/$(1)/sql/*.sql)
	@mkdir -p $$(@D)
	$$(call say,GEN,$$@) sh $$< $(1) src/backends/$(1) >$$@.new && mv $$@.new $$@
$(BUILD)/gen/$(1)_texts.h: src/backends/sql/embed.sh $(wildcard src/backends/$(1)/sql/*.sql)
	@mkdir -p $$(@D)
	$$(call say,GEN,$$@) sh $$< -h src/backends/$(1) >$$@.new && mv $$@.new $$@
$(BUILD)/gen/$(1)_texts.o: $(BUILD)/gen/$(1)_texts.c $(BUILD)/gen/$(1)_texts.h $$(compiled)
	$$(call say,CC,$$<) $$(CC) $$(ALL_CPPFLAGS) $$(ALL_CFLAGS) -c -o $$@ $$<
$(call obj,$($(2)_SRC)): $(BUILD)/gen/$(1)_texts.h
$(call obj,$($(2)_SRC)): ALL_CFLAGS += $$($(2)_CFLAGS)
$(call obj,$($(2)_SRC)): $(BUILD)/$(1).flags
endef
$(eval $(call sql_backend,mysql,MYSQL))
$(eval $(call sql_backend,postgres,POSTGRES))

$(BUILD)/%.o: %.c $(compiled)
	@mkdir -p $(@D)
	$(call say,CC,$<) $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# For builds that are part of something else: all processors, unless make was told how many.
PARALLEL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# Not in the default directory of locks, which would stay behind.
demo:
	$(Q)tests/packages $(PACKAGES)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) all
	$(Q)mkdir -p -m 0700 "$(BUILD)/demo"
	$(BUILD)/dlock run -v -b "file://$(BUILD_DIR)/demo" demo -- sh -c 'echo "I hold the lock $$DLOCK_NAME, fence $$DLOCK_FENCE"'

install: all
	$(INSTALL) -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(LIBDIR)/dlock" \
		"$(DESTDIR)$(MANDIR)/man1" "$(DESTDIR)$(MANDIR)/man5" \
		"$(DESTDIR)$(MANDIR)/man7" "$(DESTDIR)$(BASHDIR)" \
		"$(DESTDIR)$(ZSHDIR)" "$(DESTDIR)$(FISHDIR)" "$(DESTDIR)$(UNITDIR)"
	$(INSTALL) -m 755 $(BUILD)/dlock "$(DESTDIR)$(BINDIR)/dlock"
	$(if $(MODULES),$(INSTALL) -m 755 $(MODULES) "$(DESTDIR)$(LIBDIR)/dlock/")
	$(INSTALL) -m 644 man/*.1 "$(DESTDIR)$(MANDIR)/man1/"
	$(INSTALL) -m 644 man/*.5 "$(DESTDIR)$(MANDIR)/man5/"
	$(INSTALL) -m 644 man/*.7 "$(DESTDIR)$(MANDIR)/man7/"
	$(INSTALL) -m 644 completions/dlock.bash "$(DESTDIR)$(BASHDIR)/dlock"
	$(INSTALL) -m 644 completions/_dlock "$(DESTDIR)$(ZSHDIR)/_dlock"
	$(INSTALL) -m 644 completions/dlock.fish "$(DESTDIR)$(FISHDIR)/dlock.fish"
	$(INSTALL) -m 644 docs/systemd/*.service docs/systemd/*.timer "$(DESTDIR)$(UNITDIR)/"

uninstall:
	rm -f "$(DESTDIR)$(BINDIR)/dlock" "$(DESTDIR)$(BASHDIR)/dlock" \
		"$(DESTDIR)$(ZSHDIR)/_dlock" "$(DESTDIR)$(FISHDIR)/dlock.fish"
	cd docs/systemd && for unit in *.service *.timer; do rm -f "$(DESTDIR)$(UNITDIR)/$$unit"; done
	cd man && for page in *; do rm -f "$(DESTDIR)$(MANDIR)/man$${page##*.}/$$page"; done
	rm -rf "$(DESTDIR)$(LIBDIR)/dlock"

# The manual for the web.
html:
	$(Q)tests/packages html
	$(Q)docs/html "$(BUILD)/html"
	@echo "$(BUILD)/html/index.html"

VERSION := $(shell sed -n 's/^.define DLOCK_VERSION "\(.*\)"$$/\1/p' src/base/version.h)
RELEASE := dlock-$(VERSION)

# $(call pack,FILE,PATTERN): a tarball of what git has, or of all sources where there is no git, but
# not of the files that match PATTERN. The same sources give the same bytes.
define pack
	@mkdir -p "$(dir $(1))"
	$(Q)if [ -e .git ]; then \
		git ls-files; made=$$(git log -1 --format=%ct); \
	else \
		find . \( -path ./build -o -path './build-*' -o -path './$(BUILD)' \) -prune -o \
			\( -type f -o -type l \) -printf '%P\n'; made=$$(stat -c %Y CHANGELOG.md); \
	fi >"$(1).list" && grep -v '$(2)' "$(1).list" | LC_ALL=C sort | \
		tar --create --file="$(1).tar" --no-recursion --files-from=- --owner=0 --group=0 \
			--numeric-owner --mode=u=rwX,go=rX --mtime="@$${SOURCE_DATE_EPOCH:-$$made}" \
			--transform='s,^,$(RELEASE)/,rSH' && \
		gzip -9n <"$(1).tar" >"$(1)" && rm "$(1).list" "$(1).tar"
endef

dist:
	$(call pack,$(BUILD)/$(RELEASE).tar.gz,^$$)
	@echo "$(BUILD)/$(RELEASE).tar.gz"

# The build is in a copy, which has the modes that all users give it, and sees none of the variables
# that this make was given.
deb:
	$(Q)tests/packages $(PACKAGES) deb
	$(Q)rm -rf "$(BUILD)/deb"
	$(call pack,$(BUILD)/deb/dlock_$(VERSION).orig.tar.gz,^debian/)
	$(Q)tar -C "$(BUILD)/deb" -xf "$(BUILD)/deb/dlock_$(VERSION).orig.tar.gz"
	$(Q)cp -R debian "$(BUILD)/deb/$(RELEASE)/"
	$(Q)chmod -R u=rwX,go=rX "$(BUILD)/deb/$(RELEASE)"
	$(Q)cd "$(BUILD)/deb/$(RELEASE)" && env -u MAKEFLAGS -u MFLAGS -u BUILD dpkg-buildpackage -us -uc
	@ls "$(BUILD)"/deb/*.deb

# --nodeps: the packages that it needs have other names where rpm is not the system's own.
rpm:
	$(Q)tests/packages $(PACKAGES) rpm
	$(Q)rm -rf "$(BUILD)/rpm"
	$(call pack,$(BUILD)/rpm/SOURCES/$(RELEASE).tar.gz,^debian/)
	$(Q)env -u MAKEFLAGS -u MFLAGS -u BUILD rpmbuild -bb --quiet --nodeps \
		-D "_topdir $(BUILD_DIR)/rpm" -D "dlock_version $(VERSION)" rpm/dlock.spec
	@ls "$(BUILD)"/rpm/RPMS/*/*.rpm

# From a clone of its own, which has nothing that is not committed. REF=HEAD tries it without a tag.
REF ?= v$(VERSION)
release:
	$(Q)[ -e .git ] || { echo "make release needs a clone of the repository" >&2; exit 1; }
	$(Q)git rev-parse -q --verify "$(REF)^{commit}" >/dev/null || { \
		echo "there is no $(REF); tag the commit, or try it with REF=HEAD" >&2; exit 1; }
	$(Q)rm -rf "$(BUILD)/release"
	$(Q)git clone -q --shared . "$(BUILD)/release/source"
	$(Q)cd "$(BUILD)/release/source" && git checkout -q --detach "$$(git -C "$(CURDIR)" rev-parse \
		"$(REF)^{commit}")" && version=$$(sed -n 's/^.define DLOCK_VERSION "\(.*\)"$$/\1/p' \
		src/base/version.h) && case "$(REF)" in "v$$version" | [!v]*) ;; *) \
			echo "$(REF) has the version $$version" >&2; exit 1 ;; esac && \
		env -u MAKEFLAGS -u MFLAGS -u BUILD -u REF sh -c '$(MAKE) -s dist html deb static && \
			tests/packages cross && tests/cross -s' && \
		cp build/arm64/dlock-static "../dlock-$$version-linux-aarch64" && \
		mv build/html "dlock-$$version-docs" && tar -czf "../dlock-$$version-docs.tar.gz" "dlock-$$version-docs" && \
		cp build/dlock-static "../dlock-$$version-linux-$$(uname -m)" && \
		cp build/dlock-static.LICENSES .. && \
		cp build/*.tar.gz build/deb/*.deb build/deb/*.dsc build/deb/*.tar.* ..
	$(Q)grep -H '^Maintainer: .*\.example>' "$(BUILD)/release/source/debian/control" && \
		echo "the maintainer's address is a placeholder: see CONTRIBUTING.md" >&2 || true
	$(Q)rm -rf "$(BUILD)/release/source"
	$(Q)cd "$(BUILD)/release" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS

clean:
	rm -rf build build-* $(if $(filter-out build,$(BUILD)),"$(BUILD)")

include tests/rules.mk

-include $(shell find $(BUILD) -path $(BUILD)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)
.SECONDARY:
